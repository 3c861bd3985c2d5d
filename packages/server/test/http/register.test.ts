import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OpenApi } from '../../src/compose/openapi.ts'
import { eventTypes } from '../../src/delivery/events.ts'
import { call } from '../kit/client.ts'
import { basesOf, marked, type Node, walk } from '../kit/document-walk.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { readRegister } from './support/register.ts'

/*
 * The register of decisions, the code it names and /openapi.json agree.
 */

const root = fileURLToPath(new URL('../../../../', import.meta.url))
const choices = readRegister('README.md')
const register = [...choices, ...readRegister('records.md')]

let api: TestApi
let document: OpenApi
let bases: Map<unknown, Node>
let cited: Set<number>

beforeAll(async () => {
  api = await startApi()
  document = (await call<OpenApi>(`${api.url}/openapi.json`)).body
  bases = basesOf(document)
  cited = new Set(
    [...walk(document)].filter(([, node]) => 'x-decision' in node).map(([, node]) => Number(node['x-decision'])),
  )
})
afterAll(() => api.close())

const isChoice = (node: Node): boolean => node['x-basis'] === 'chosen' && Number.isInteger(node['x-decision'])

test('every entry names what is chosen, what that rests on, and existing files', () => {
  expect(register.length).toBeGreaterThan(70)
  expect(new Set(register.map((entry) => entry.number)).size).toBe(register.length)
  for (const { number, lines } of register) {
    for (const name of ['Chosen', 'Rests on', 'Code']) expect(lines.has(name), `${number} has ${name}`).toBe(true)
    const files = [...lines.get('Code')!.matchAll(/`(packages\/[^`]+)`/g)].map(([, file]) => file!)
    expect(files.length, `${number} names a file`).toBeGreaterThan(0)
    for (const file of files) {
      expect(existsSync(root + file) && statSync(root + file).isFile(), `${number}: ${file} is a file`).toBe(true)
    }
  }
})

test('every choice about the interface says what was open, and is cited in /openapi.json or says that it does not show', () => {
  expect(choices.filter(({ lines }) => !lines.has('Open')).map((entry) => entry.number)).toEqual([])
  const hidden = choices.filter(({ lines }) => lines.has('Shows')).map((entry) => entry.number)
  expect(choices.map((entry) => entry.number).filter((number) => !cited.has(number))).toEqual(hidden)
})

test('every decision that /openapi.json cites has an entry', () => {
  const numbers = new Set(register.map((entry) => entry.number))
  expect([...cited].filter((number) => !numbers.has(number))).toEqual([])
})

test('every operation, parameter, body, answer, header and field is specified or chosen, by itself or with what it is part of', () => {
  const all = [...marked(document)]
  expect(all.length).toBeGreaterThan(800)
  const isKnown = (basis: Node | undefined) => basis && (basis['x-basis'] === 'specified' || isChoice(basis))
  expect(all.filter(([, node]) => !isKnown(bases.get(node))).map(([where]) => where)).toEqual([])
})

test('every operation and schema has a basis of its own, and no part of a schema repeats it', () => {
  const { schemas } = document.components
  const operations = [...Object.values(document.paths), ...Object.values(document.webhooks)].flatMap(Object.values)
  for (const one of [...operations, ...Object.values(schemas)]) expect(one).toHaveProperty('x-basis')
  const isRepeated = (basis: Node | undefined, part: unknown) =>
    basis !== undefined && bases.get(part) === part && isSame(basis, part as Node)
  const isSame = (a: Node, b: Node) => a['x-basis'] === b['x-basis'] && a['x-decision'] === b['x-decision']
  const repeated = [...walk(schemas)].flatMap(([path, node]) =>
    Object.entries(path.at(-1) === 'x-chosen' ? {} : node)
      .filter(([, part]) => isRepeated(bases.get(node), part))
      .map(([name]) => [...path, name].join(' ')),
  )
  expect(repeated).toEqual([])
})

test('every x-chosen entry has a sentence and a decision', () => {
  const inside = [...walk(document)].flatMap(([path, node]) =>
    'x-chosen' in node ? (node['x-chosen'] as Node[]).map((one): [string, Node] => [path.join(' '), one]) : [],
  )
  expect(inside.length).toBeGreaterThan(100)
  for (const [where, one] of inside) {
    expect(isChoice(one), where).toBe(true)
    expect(one.description, where).toMatch(/^\S.*\.$/)
  }
})

/*
 * What the published interface shows of /api/v1 and of deliveries.
 */
const org = '/api/v1/organizations/{org_id}'
const shown: Record<string, string[]> = {
  // Section 4: operations, ids in their paths, and request bodies. Section 2 has the fields of these.
  [`POST ${org}/api-keys`]: ['path org_id', 'body', 'body.name', '201.id', '201.name', '201.key_prefix', '201.api_key'],
  [`GET ${org}/api-keys`]: ['path org_id', '200.key_prefix'],
  [`DELETE ${org}/api-keys/{api_key_id}`]: ['path org_id', 'path api_key_id'],
  'GET /api/v1/organizations': [],
  [`POST ${org}/webhooks`]: ['path org_id', 'body', 'body.url', 'body.event_types', '201.secret'],
  [`GET ${org}/webhooks`]: ['path org_id'],
  [`GET ${org}/webhooks/{webhook_id}/deliveries`]: ['path org_id', 'path webhook_id', '200.status', '200.response'],
  [`DELETE ${org}/webhooks/{webhook_id}`]: ['path org_id', 'path webhook_id'],
  // Section 6: the six events, and the two headers of a delivery.
  ...Object.fromEntries(
    eventTypes.map((type) => [`POST ${type}`, ['header X-Service-Event', 'header X-Service-Signature']]),
  ),
}

/** The parts of an operation that are marked as specified, written as above. */
function specifiedParts(operation: Node): string[] {
  const found: string[] = []
  const isSpecified = (node: unknown) => bases.get(node)?.['x-basis'] === 'specified'
  for (const parameter of operation.parameters as Node[]) {
    if (isSpecified(parameter)) found.push(`${parameter.in} ${parameter.name}`)
  }
  const fields = (prefix: string, content: Node | undefined) => {
    for (const { schema } of Object.values(content ?? {}) as { schema: Node }[]) {
      const reached = [...walk(resolve(schema))].filter(([path]) => path.at(-2) === 'properties')
      for (const [path, field] of reached) {
        const names = path.filter((_, i) => path[i - 1] === 'properties')
        if (isSpecified(field)) found.push(`${prefix}.${names.join('.')}`)
      }
    }
  }
  const body = operation.requestBody as Node | undefined
  if (body && isSpecified(body)) found.push('body')
  fields('body', body?.content as Node | undefined)
  for (const [status, response] of Object.entries(operation.responses as Record<string, Node>)) {
    if (isSpecified(response)) found.push(status)
    for (const [name, header] of Object.entries((response.headers ?? {}) as Record<string, Node>)) {
      if (isSpecified(header)) found.push(`${status} header ${name}`)
    }
    fields(status, response.content as Node | undefined)
  }
  return found
}

/** The record behind an array and a reference. */
function resolve(schema: Node): Node {
  const one = schema.type === 'array' ? (schema.items as Node) : schema
  return typeof one.$ref === 'string' ? document.components.schemas[one.$ref.split('/').at(-1)!]! : one
}

test('exactly what the published interface shows is marked as specified', () => {
  const operations = [...Object.entries(document.paths), ...Object.entries(document.webhooks)].flatMap(
    ([path, methods]) =>
      Object.entries(methods)
        .filter(([, operation]) => (operation as Node)['x-basis'] === 'specified')
        .map(([method, operation]): [string, Node] => [`${method.toUpperCase()} ${path}`, operation as Node]),
  )
  expect(Object.fromEntries(operations.map(([name, operation]) => [name, specifiedParts(operation)]))).toEqual(shown)
})

test('outside of the published interface only the ids that it names are marked as specified', () => {
  const ours = Object.entries(document.paths).filter(([path]) => !path.startsWith('/api/v1/'))
  for (const [path, operations] of ours) {
    for (const [method, operation] of Object.entries(operations)) {
      if (method.startsWith('x-')) continue
      const claimed = specifiedParts(operation).filter((part) => !/^path (org|webhook|api_key)_id$/.test(part))
      expect(claimed, `${method} ${path}`).toEqual([])
    }
  }
})
