import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OpenApi } from '../../src/compose/openapi.ts'
import { eventTypes, sampleData } from '../../src/delivery/events.ts'
import type { Json } from '../../src/http/basis.ts'
import { guidePath, guides } from '../../src/http/guides.ts'
import { call } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { walk } from '../kit/document-walk.ts'
import { type Documented, readDocumented } from '../kit/documented.ts'
import { startApi, type TestApi } from '../kit/installation.ts'

let api: TestApi
let documented: Documented
let document: OpenApi

beforeAll(async () => {
  api = await startApi()
  documented = await readDocumented(api.url)
  document = documented.document
})
afterAll(() => api.close())

const service = [
  '/healthz',
  '/readyz',
  '/metrics',
  '/openapi.json',
  '/database-ca.pem',
  '/docs',
  '/docs/scalar.js',
  '/docs/decisions',
  ...guides.map(guidePath),
]

/** The operations of a path, without its `x-` keys. */
const operationsOf = (methods: Record<string, Json>): [method: string, operation: Json][] =>
  Object.entries(methods).filter(([method]) => !method.startsWith('x-'))

test('the document is valid OpenAPI 3.1', async () => {
  const result = await new Validator().validate(structuredClone(document))
  expect(result.errors).toBeUndefined()
  expect(result.valid).toBe(true)
  expect(document.openapi).toMatch(/^3\.1\./)
})

test('every operation has one tag, every tag has a description and a place in one group', () => {
  const tags = document.tags as { name: string; description: string }[]
  for (const { description } of tags) expect(description).toMatch(/\.$/)
  const names = tags.map(({ name }) => name).sort()
  const used = [...Object.values(document.paths), ...Object.values(document.webhooks)].flatMap((methods) =>
    operationsOf(methods).map(([, operation]) => operation.tags as string[]),
  )
  for (const one of used) expect(one).toHaveLength(1)
  expect([...new Set(used.flat())].sort()).toEqual(names)
  const grouped = (document['x-tagGroups'] as { tags: string[] }[]).flatMap((group) => group.tags)
  expect(grouped.sort()).toEqual(names)
})

test('operations on webhooks and events are in one group, whichever surface they are on', () => {
  const groups = document['x-tagGroups'] as { name: string; tags: string[] }[]
  const groupOf = (operation: Json) => groups.find(({ tags }) => tags.includes((operation.tags as string[])[0]!))!.name
  const about = Object.entries(document.paths).filter(([path]) =>
    /^\/(api|platform)\/v1\/.*\/(webhooks|deliveries|events|event-types|delivery-summary)\b/.test(path),
  )
  expect(new Set(about.map(([path]) => path.split('/')[1]))).toEqual(new Set(['api', 'platform']))
  const found = about.flatMap(([, methods]) => operationsOf(methods).map(([, operation]) => groupOf(operation)))
  expect(found.length).toBeGreaterThan(20)
  expect(new Set(found)).toEqual(new Set(['Webhooks and events']))
})

test('the document has every route with its permission, the public pages and the metrics, and nothing else', () => {
  const listed = routesOf(api).map(({ method, path, needs }) => `${method} ${path.replace(/:\w+/g, '{}')} ${needs}`)
  const inDocument = Object.entries(document.paths).flatMap(([path, operations]) =>
    operationsOf(operations).map(
      ([method, operation]) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, '{}')} ${operation['x-permission']}`,
    ),
  )
  const open = service.map((path) => `GET ${path} undefined`)
  expect(inDocument.sort()).toEqual([...listed, ...open].sort())
})

test('every field has a description', () => {
  const silent: string[] = []
  const isSaid = (schema: Json): boolean =>
    '$ref' in schema || 'description' in schema || ((schema.anyOf ?? []) as Json[]).some(isSaid)
  const walk = (node: unknown, path: string): void => {
    if (typeof node !== 'object' || node === null) return
    const { properties } = node as Json
    for (const [name, schema] of Object.entries((properties ?? {}) as Record<string, Json>))
      if (!isSaid(schema)) silent.push(`${path}/${name}`)
    for (const [name, inner] of Object.entries(node)) if (name !== 'examples') walk(inner, `${path}/${name}`)
  }
  walk(document, '')
  expect(silent).toEqual([])
})

test('the document has the eight operations of the published interface, at its paths', () => {
  const org = '/api/v1/organizations/{org_id}'
  const published = [
    `POST ${org}/api-keys`,
    `GET ${org}/api-keys`,
    `DELETE ${org}/api-keys/{api_key_id}`,
    'GET /api/v1/organizations',
    `POST ${org}/webhooks`,
    `GET ${org}/webhooks`,
    `DELETE ${org}/webhooks/{webhook_id}`,
    `GET ${org}/webhooks/{webhook_id}/deliveries`,
  ]
  const there = Object.entries(document.paths)
    .filter(([path]) => path.startsWith('/api/v1/'))
    .flatMap(([path, operations]) => operationsOf(operations).map(([method]) => `${method.toUpperCase()} ${path}`))
  expect(there.sort()).toEqual(published.sort())
})

test('objects of answers and bodies are closed: a field that is not documented is not sent', () => {
  const open = Object.entries(document.components.schemas).filter(([, schema]) => schema.additionalProperties !== false)
  expect(open.map(([name]) => name)).toEqual([])
})

test('every example of a schema is valid against the schema', () => {
  const withExamples = [...walk(document)].filter(([, node]) => Array.isArray(node.examples))
  expect(withExamples.length).toBeGreaterThan(20)
  for (const [path, { examples }] of withExamples) {
    for (const example of examples as unknown[]) documented.checkValue(path, example)
  }
})

test('every body of a success, a request or an event has an example that is valid against its schema', () => {
  const operations = [...Object.values(document.paths), ...Object.values(document.webhooks)].flatMap((methods) =>
    operationsOf(methods).map(([, operation]) => operation),
  )
  for (const { operationId, requestBody, responses } of operations) {
    const successes = Object.entries(responses as Record<string, Json>).filter(([status]) => status.startsWith('2'))
    const bodies = [requestBody as Json | undefined, ...successes.map(([, response]) => response)]
    for (const content of bodies.flatMap((body) => Object.values((body?.content ?? {}) as Record<string, Json>))) {
      expect(content.example, String(operationId)).toBeDefined()
    }
  }
  const withExample = [...walk(document)].filter(([, node]) => 'example' in node && 'schema' in node)
  expect(withExample.length).toBeGreaterThan(40)
  for (const [path, { example }] of withExample) documented.checkValue([...path, 'schema'], example)
})

test('descriptions name no decisions; only that of the document has a link to them', () => {
  const found = [...walk(document)].filter(([, node]) => /\]\(|chosen:|decisions? \d/i.test(String(node.description)))
  expect(found.map(([path]) => path.join(' '))).toEqual(['info'])
})

test.each(eventTypes)('the data of %s is documented field by field', (type) => {
  const { requestBody } = document.webhooks[type]!.post as Json & { requestBody: { content: Json } }
  const { schema } = requestBody.content['application/json'] as { schema: { properties: { data: Json } } }
  expect(Object.keys(schema.properties.data.properties as Json)).toEqual(Object.keys(sampleData(type)))
})

test('every path documents its methods, and answers others as documented', async () => {
  for (const [path, methods] of Object.entries(document.paths)) {
    const reply = await call(api.url + path, { method: 'PROPFIND' })
    documented.check('x-other-methods', path, reply)
    const { 405: answer } = (methods['x-other-methods'] as { responses: Record<string, Json> }).responses
    const { Allow } = answer!.headers as { Allow: { schema: { const: string } } }
    expect(reply.headers.get('allow')).toBe(Allow.schema.const)
  }
})

test.each(service)('%s answers as documented', async (path) => {
  await documented.call('GET', path, api.url + path)
})
