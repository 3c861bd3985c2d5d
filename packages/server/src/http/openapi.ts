import type { TSchema } from 'typebox'
import { eventIdPattern } from '../domain/events.ts'
import { type FaultCode, faultCatalogue } from '../kernel/faults.ts'
import { type IdPrefix, idPattern } from '../kernel/ids.ts'
import { type Basis, chosen, specified } from './basis.ts'
import { deliveryWebhooks } from './openapi-webhooks.ts'
import { problemSchema } from './problem-schema.ts'
import type { Route } from './route.ts'

type Json = { [key: string]: unknown }

export type OpenApi = Json & {
  paths: Record<string, Record<string, Json>>
  components: { schemas: Record<string, Json>; securitySchemes: Json }
}

/** The OpenAPI document, made from the route table and the very schemas that validate. */
export function createOpenApi(routes: readonly Route[], { serviceName = 'Service' } = {}): OpenApi {
  const schemas: Record<string, Json> = { Problem: plain(problemSchema, {}) }
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, (_, name) => `{${pathParameters[name]!.name}}`)
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operation(route, schemas)
  }
  for (const [path, about] of Object.entries(healthPaths)) paths[path] = { get: healthOperation(about) }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Keyhook',
      version: '1',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description:
        'Organization API keys and webhooks. `x-basis: specified` marks what the published interface shows; `x-basis: chosen` marks what it leaves open, with the number of the decision that fills the gap (docs/decisions).',
    },
    security: [{ bearer: [] }],
    paths,
    webhooks: deliveryWebhooks(serviceName),
    components: {
      schemas,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key or a login token, sent alike.',
          ...specified,
        },
      },
    },
  }
}

type PathParameter = { name: string; description: string; basis?: Basis } & ({ prefix: IdPrefix } | { pattern: string })

const pathParameters: Record<string, PathParameter> = {
  orgId: { name: 'org_id', description: 'The organization.', prefix: 'org' },
  keyId: { name: 'api_key_id', description: 'The `id` of the key.', prefix: 'key' },
  webhookId: { name: 'webhook_id', description: 'The `id` of the webhook.', prefix: 'wh' },
  deliveryId: { name: 'delivery_id', description: 'The `id` of the attempt.', prefix: 'dlv', basis: chosen(38) },
  recoveryId: { name: 'recovery_id', description: 'The `id` of the recovery.', prefix: 'rcv', basis: chosen(39) },
  eventId: { name: 'event_id', description: 'The `id` of the event.', pattern: eventIdPattern, basis: chosen(40) },
  databaseId: { name: 'database_id', description: 'The `id` of the database.', prefix: 'db', basis: chosen(50) },
  backupId: { name: 'backup_id', description: 'The `id` of the backup.', prefix: 'bak', basis: chosen(56) },
  restoreId: { name: 'restore_id', description: 'The `id` of the restore.', prefix: 'rst', basis: chosen(59) },
  invoiceId: { name: 'invoice_id', description: 'The `id` of the invoice.', prefix: 'inv', basis: chosen(62) },
}

function operation(route: Route, schemas: Record<string, Json>): Json {
  const query = (route.query as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {}
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: `${route.description}\n\nNeeds the permission \`${route.needs}\`.`,
    ...route.basis,
    'x-permission': route.needs,
    parameters: [
      ...[...route.path.matchAll(/:(\w+)/g)].map(([, name]) => pathParameter(name!)),
      ...Object.entries(query).map(([name, schema]) => queryParameter(name, plain(schema, schemas))),
    ],
    ...(route.body && {
      requestBody: {
        required: true,
        content: { 'application/json': { schema: plain(route.body, schemas) } },
        ...route.basis,
      },
    }),
    responses: responses(route, schemas),
  }
}

const operationId = (route: Route): string =>
  route.summary.replace(/ (\w)/g, (_, letter) => letter.toUpperCase()).replace(/^./, (c) => c.toLowerCase())

function pathParameter(name: string): Json {
  const { name: shown, description, basis, ...shape } = pathParameters[name]!
  return {
    name: shown,
    in: 'path',
    required: true,
    description,
    schema: { type: 'string', pattern: 'prefix' in shape ? idPattern(shape.prefix) : shape.pattern },
    ...(basis ?? specified),
  }
}

const queryParameter = (
  name: string,
  { description, 'x-basis': basis, 'x-decision': decision, ...schema }: Json,
): Json => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
  'x-basis': basis,
  'x-decision': decision,
})

function responses(route: Route, schemas: Record<string, Json>): Json {
  const { status, description, schema } = route.success
  const codes: FaultCode[] = [
    'auth.required',
    'auth.invalid_token',
    'internal',
    'service.unavailable',
    ...(route.faults ?? []),
  ]
  if (route.path.includes(':orgId')) codes.push('auth.permission_missing')
  if (route.query) codes.push('request.invalid')
  // A DELETE has no body of its own, but one that is sent is read and may be refused.
  if (route.method !== 'GET') codes.push('request.malformed', 'request.too_large', 'request.unsupported_media_type')
  const answers: Record<string, Json> = {
    [status]: {
      description,
      ...chosen(1),
      headers: { ...successHeaders(route), ...header('Cache-Control', 'Always `no-store`.', chosen(33)) },
      ...(schema && { content: { 'application/json': { schema: plain(schema, schemas) } } }),
    },
  }
  for (const code of new Set(codes)) {
    const { status, title } = faultCatalogue[code]
    answers[status] ??= {
      description: '',
      ...problemBasis(status),
      headers: problemHeaders(status),
      content: problemContent,
    }
    const answer = answers[status] as { description: string }
    answer.description += `${answer.description && '; '}\`${code}\`: ${title}`
  }
  return answers
}

function successHeaders(route: Route): Json {
  if (route.success.status === 201) return header('Location', 'The path of what was made.', chosen(1))
  if (route.query) return header('Link', '`rel="next"` on a page that is not the last.', chosen(3))
  return {}
}

function problemHeaders(status: number): Json {
  const noStore = header('Cache-Control', 'Always `no-store`.', chosen(33))
  if (status === 401) return { ...header('WWW-Authenticate', '`Bearer`, per RFC 6750.', chosen(5)), ...noStore }
  if (status === 403)
    return { ...header('WWW-Authenticate', '`Bearer error="insufficient_scope"`.', chosen(6)), ...noStore }
  if (status === 503) return { ...header('Retry-After', 'Seconds to wait.', chosen(4)), ...noStore }
  return noStore
}

const decisionOfStatus: Record<number, number> = { 401: 5, 403: 6, 404: 7, 400: 8, 413: 8, 415: 8, 422: 8 }
const problemBasis = (status: number): Basis => chosen(decisionOfStatus[status] ?? 4)

const problemContent = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

const header = (name: string, description: string, basis: Basis): Json => ({
  [name]: { description, schema: { type: 'string' }, ...basis },
})

const healthPaths = {
  '/healthz': { summary: 'Alive?', description: 'Answers while the process lives.' },
  '/readyz': {
    summary: 'Ready?',
    description: 'Answers 200 while the process can do its work, 503 while the database is out of reach.',
  },
}

const healthOperation = (about: { summary: string; description: string }): Json => ({
  ...about,
  security: [],
  ...chosen(32),
  responses: {
    200: {
      description: 'It does.',
      ...chosen(32),
      content: {
        'application/json': {
          schema: {
            type: 'object',
            properties: { status: { type: 'string', const: 'ok', ...chosen(32) } },
            required: ['status'],
          },
        },
      },
    },
    503: { description: 'It does not.', ...problemBasis(503), content: problemContent },
  },
})

/** A copy without TypeBox's private marks; schemas with an `$id` move to the components and leave a reference behind. */
function plain(schema: unknown, schemas: Record<string, Json>): Json {
  if (Array.isArray(schema)) return schema.map((item) => plain(item, schemas)) as unknown as Json
  if (typeof schema !== 'object' || schema === null) return schema as unknown as Json
  const { $id, ...rest } = schema as Json
  const copy = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plain(value, schemas)]))
  if (typeof $id !== 'string') return copy
  schemas[$id] = copy
  // A field that refers to a record says itself where it comes from; OpenAPI 3.1 allows that beside a reference.
  const marks = Object.entries(copy).filter(([key]) => key === 'x-basis' || key === 'x-decision')
  return { $ref: `#/components/schemas/${$id}`, ...Object.fromEntries(marks) }
}
