import { existsSync, readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { composeRoutes } from '../../src/compose.ts'
import type { OpenApi } from '../../src/http/openapi.ts'
import { call } from '../support/client.ts'
import { startApi, type TestApi } from '../support/installation.ts'

let api: TestApi
let document: OpenApi

beforeAll(async () => {
  api = await startApi()
  document = (await call<OpenApi>(`${api.url}/openapi.json`)).body
})
afterAll(() => api.close())

type Node = Record<string, unknown>
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null

/** Visits every object of the document with the path that leads to it. */
function* walk(node: unknown, path: string[] = []): Generator<[path: string[], node: Node]> {
  if (!isNode(node)) return
  yield [path, node]
  for (const [key, child] of Object.entries(node)) yield* walk(child, [...path, key])
}

/** Everything that has to say where it comes from: operations, parameters, bodies, answers, headers and fields. */
function* marked(): Generator<[where: string, node: Node]> {
  for (const [path, node] of walk(document)) {
    const [parent, own] = [path.at(-2), path.at(-1)!]
    const described = path[0] === 'paths' || path[0] === 'webhooks'
    const isOperation = described && path.length === 3
    const isField = parent === 'properties' && isNode(node)
    const isPart = ['parameters', 'headers', 'responses'].includes(parent ?? '') && described
    if (isOperation || isField || isPart || own === 'requestBody') yield [path.join(' '), node]
  }
}

test('the document is valid OpenAPI 3.1', async () => {
  const result = await new Validator().validate(structuredClone(document))
  expect(result.errors).toBeUndefined()
  expect(result.valid).toBe(true)
  expect(document.openapi).toMatch(/^3\.1\./)
})

test('every route is in the document with its permission, and nothing else but the health pages', () => {
  const listed = composeRoutes(api).map(
    ({ method, path, needs }) => `${method} ${path.replace(/:\w+/g, '{}')} ${needs}`,
  )
  const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(
      ([method, operation]) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, '{}')} ${operation['x-permission']}`,
    ),
  )
  expect(documented.sort()).toEqual([...listed, 'GET /healthz undefined', 'GET /readyz undefined'].sort())
})

test('the eight operations of the published interface are there, at its paths', () => {
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
    .flatMap(([path, operations]) => Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`))
  expect(there.sort()).toEqual(published.sort())
})

test('every operation, parameter, body, answer, header and field says whether it is specified or chosen, and why', () => {
  const unmarked: string[] = []
  let count = 0
  for (const [where, node] of marked()) {
    count += 1
    const basis = node['x-basis']
    const fine = basis === 'specified' || (basis === 'chosen' && Number.isInteger(node['x-decision']))
    if (!fine) unmarked.push(where)
  }
  expect(count).toBeGreaterThan(100)
  expect(unmarked).toEqual([])
})

test('what the published interface shows is marked specified, and only that', () => {
  const fieldsOf = (name: string, basis: string) =>
    Object.entries((document.components.schemas[name] as { properties: Record<string, Node> }).properties)
      .filter(([, field]) => field['x-basis'] === basis)
      .map(([field]) => field)
  expect(fieldsOf('CreatedApiKey', 'specified')).toEqual(['id', 'name', 'key_prefix', 'api_key'])
  expect(fieldsOf('NewApiKey', 'specified')).toEqual(['name'])
  expect(fieldsOf('ApiKey', 'specified')).toEqual(['key_prefix'])
  expect(fieldsOf('NewWebhook', 'specified')).toEqual(['url', 'event_types'])
  expect(fieldsOf('CreatedWebhook', 'chosen')).toEqual(['id', 'created_at'])
})

test('objects of answers and bodies are closed: a field that is not documented is not sent', () => {
  const open = Object.entries(document.components.schemas).filter(([, schema]) => schema.additionalProperties !== false)
  expect(open.map(([name]) => name)).toEqual([])
})

const register = new URL('../../../../docs/decisions/README.md', import.meta.url)
test.skipIf(!existsSync(register))('every decision that the document refers to has its entry in the register', () => {
  const entries = new Set(
    [...readFileSync(register, 'utf8').matchAll(/^## (\d+)\. /gm)].map(([, number]) => Number(number)),
  )
  const missing = new Set<unknown>()
  for (const [, node] of walk(document)) {
    if ('x-decision' in node && !entries.has(node['x-decision'] as number)) missing.add(node['x-decision'])
  }
  expect([...missing]).toEqual([])
})

test('/docs shows every operation and is well-formed, without scripts', async () => {
  const page = await call(`${api.url}/docs`)
  expect(page.status).toBe(200)
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(page.text).not.toMatch(/<script/i)
  for (const path of Object.keys(document.paths)) expect(page.text).toContain(path)
  const open: string[] = []
  for (const [, closing, tag, rest] of page.text.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/gi)) {
    if (['meta', 'br', 'link', 'hr', 'img'].includes(tag!) || rest!.endsWith('/')) continue
    if (closing === '') open.push(tag!)
    else expect(open.pop(), `what </${tag}> closes`).toBe(tag)
  }
  expect(open).toEqual([])
})
