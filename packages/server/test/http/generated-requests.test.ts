import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatPatterns } from '../../src/http/openapi/nodes.ts'
import { emailProblem, labelProblem, webhookUrlProblem } from '../../src/lib/label.ts'
import { parseTimestamp } from '../../src/lib/time.ts'
import { call, type Reply } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { changed, type Schema, valuesOf } from './support/generated.ts'

/*
 * Requests that are made from /openapi.json, valid ones and others. The document alone decides which they are: the program must
 * refuse exactly those that the document forbids, and answer only what the document has.
 */

const api = ownedApi()
const runs = { numRuns: Number(process.env.GENERATED_RUNS ?? 12) }

type Parameter = { name: string; in: 'path' | 'query' | 'header'; schema: Schema }
type Operation = {
  method: string
  path: string
  'x-permission'?: string
  parameters?: Parameter[]
  requestBody?: { required: boolean; content: { 'application/json': { schema: Schema } } }
  responses: Record<string, { content?: Record<string, unknown> }>
}

/** Rules between fields, and about what exists: no schema says them, so these may be refused although they look valid. */
const otherRules: Record<string, string> = {
  cursor: 'that a Link header of this list gave you',
  'Idempotency-Key': 'was used for another request',
  until: 'must lie in the future|must be later than `since`',
  since: 'must lie in the past|must be before the end of the time range',
  bucket_seconds: 'must make at most 1000 intervals',
  event_types: 'must be event types separated by commas',
  organization_id: 'must be an organization that exists',
  allowed_networks: 'must be a CIDR',
  address: 'must be an IPv4 or IPv6 address',
  databases: 'is no database of the organization',
  preset: 'must not be given together',
  confirm: 'must be the name of the organization',
  email: 'must be one e-mail address without quotes',
}

const isRefusal = (reply: Reply) => reply.status === 400 || reply.status === 422

function operations(): Operation[] {
  const methods = ['get', 'post', 'put', 'patch', 'delete']
  return Object.entries(api.documented.document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method, operation]) => methods.includes(method) && 'x-permission' in operation)
      .map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation }) as unknown as Operation),
  )
}

const resolve = (ref: string): Schema =>
  api.documented.document.components.schemas[ref.split('/').at(-1)!] as unknown as Schema

/** By the document alone: of our own formats, which tools do not know, only their patterns count. */
function validatorOf(): (schema: Schema, value: unknown) => boolean {
  const ajv = new Ajv2020({ strict: false })
  for (const name of Object.keys(formatPatterns)) ajv.addFormat(name, true)
  ajv.addFormat('date-time', (text) => parseTimestamp(text) !== null)
  ajv.addSchema({ $id: 'doc', ...api.documented.document })
  const local = (schema: Schema): Schema =>
    JSON.parse(JSON.stringify(schema), (key, value) => (key === '$ref' ? `doc${value}` : value))
  return (schema, value) => ajv.validate(local(schema), value) as boolean
}

test('bodies, queries and keys are refused exactly where the document forbids them', async () => {
  const isValid = validatorOf()
  const operator = await api.operatorToken()
  const differences: string[] = []
  for (const operation of operations()) {
    const { method, path, parameters = [], requestBody } = operation
    const token = operation['x-permission'] === 'operator' ? operator : api.owner.token
    const inQuery = parameters.filter((one) => one.in === 'query')
    const takesKey = parameters.some(({ name }) => name === 'Idempotency-Key')
    const isStream = Object.keys(operation.responses[200]?.content ?? {}).includes('text/event-stream')
    if (isStream || (requestBody === undefined && inQuery.length === 0)) continue
    const ids = fc.record(
      Object.fromEntries(
        parameters.filter((one) => one.in === 'path').map(({ name, schema }) => [name, valuesOf(schema, resolve)]),
      ),
    )
    const schema = requestBody?.content['application/json'].schema
    const body = schema === undefined ? fc.constant(undefined) : valuesOf(schema, resolve)
    const query = fc.record(Object.fromEntries(inQuery.map(({ name, schema }) => [name, valuesOf(schema, resolve)])), {
      requiredKeys: [],
    }) as fc.Arbitrary<Record<string, unknown>>
    const key = parameters.find(({ name }) => name === 'Idempotency-Key')?.schema
    const request = fc.record({
      ids,
      body: schema === undefined ? body : fc.oneof(body, changed(body)),
      query: fc.oneof(query, changed(query) as fc.Arbitrary<Record<string, unknown>>),
      key: takesKey
        ? fc.oneof(valuesOf(key!, resolve), fc.constantFrom('two words', 'é', 'x'.repeat(256)))
        : fc.constant(undefined),
    })
    const { failed, errorInstance } = await fc.check(
      fc.asyncProperty(request, async ({ ids, body, query, key: given }) => {
        const filled = path.replace(/\{(\w+)\}/g, (_, name) =>
          name === 'org_id' ? api.orgId : encodeURIComponent(String(ids[name])),
        )
        const sent = Object.entries(query).map(
          ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
        )
        const url = `${api.url}${filled}?${new URLSearchParams(sent as unknown as [string, string][])}`
        const headers = given === undefined ? {} : { 'idempotency-key': given as string }
        const options = { method, token, headers, ...(body !== undefined && { raw: JSON.stringify(body) }) }
        const reply = await call(url, options)
        const what = `${method} ${url} ${JSON.stringify({ body, key: given })} answers ${reply.status} ${reply.text.slice(0, 300)}`
        api.documented.check(method, path, reply)
        const isQueryValid = sent.every(([name, value]) => {
          const documented = inQuery.find((one) => one.name === name)?.schema
          if (documented === undefined) return false
          const read = documented.type === 'integer' && /^\d{1,15}$/.test(value) ? Number(value) : value
          return isValid(documented, read)
        })
        const isBodyValid = schema === undefined || isValid(schema, body)
        const isKeyValid = given === undefined || isValid(key!, given)
        if (!isQueryValid || !isBodyValid || !isKeyValid) expect(isRefusal(reply), what).toBe(true)
        else if (isRefusal(reply)) expect(reply.text, what).toMatch(new RegExp(Object.values(otherRules).join('|')))
        if (given !== undefined && reply.status < 300) api.documented.check(method, path, await call(url, options))
      }),
      runs,
    )
    if (failed) differences.push(String(errorInstance))
  }
  expect(differences).toEqual([])
})

test('an id that is unknown, or has another form, is answered as documented', async () => {
  const operator = await api.operatorToken()
  for (const { method, path, 'x-permission': permission } of operations()) {
    const token = permission === 'operator' ? operator : api.owner.token
    for (const id of ['%C2%84', 'org_00000000000000000000000000']) {
      const url = `${api.url}${path.replace(/\{\w+\}/g, id)}`
      api.documented.check(method, path, await call(url, { method, token }))
    }
  }
})

test('the patterns of names and URLs say what is checked', () => {
  const [label, url, email] = ['label', 'webhook-url', 'email-address'].map(
    (name) => new RegExp(formatPatterns[name]!),
  ) as [RegExp, RegExp, RegExp]
  const character = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.string({ minLength: 1, maxLength: 1 }),
  )
  const text = fc
    .array(character, { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join(''))
    // Patterns without the flag `u` have no way to say these.
    .filter((one) => !/[\u{10000}-\u{10ffff}]/u.test(one))
  fc.assert(
    fc.property(text, (name) => label.test(name) === (labelProblem(name) === null)),
    { numRuns: 5_000 },
  )
  fc.assert(
    fc.property(
      fc.oneof(
        text,
        fc.tuple(text, text).map((parts) => parts.join('@')),
      ),
      (one) => {
        expect(email.test(one), one).toBe((labelProblem(one) ?? emailProblem(one)) === null)
      },
    ),
    { numRuns: 5_000 },
  )
  const urls = fc.oneof(
    fc.webUrl({ validSchemes: ['https', 'http', 'HTTPS'], withFragments: true, withQueryParameters: true }),
    text.map((rest) => `https://example.com${rest}`),
    text.map((rest) => `https://${rest}`),
  )
  fc.assert(
    fc.property(urls, (one) => {
      if (webhookUrlProblem(one) === null) expect(url.test(one), one).toBe(true)
      else if (URL.canParse(one)) expect(url.test(one), one).toBe(false)
    }),
    { numRuns: 5_000 },
  )
  for (let code = 0; code <= 0xffff; code += code === 0xd7ff ? 0x801 : 1) {
    const one = String.fromCodePoint(code)
    if (label.test(one) !== (labelProblem(one) === null)) expect.fail(`U+${code.toString(16)} as a name`)
  }
})
