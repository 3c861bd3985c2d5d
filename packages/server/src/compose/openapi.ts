import { withEventTypes } from '../delivery/event-type-schemas.ts'
import type { CustomEventType } from '../delivery/events.ts'
import { dataSchemas, deliveryWebhooks } from '../delivery/openapi.ts'
import { type Choice, choice, type Json, specified } from '../http/basis.ts'
import { guidePath, guides } from '../http/guides.ts'
import { plain } from '../http/openapi/nodes.ts'
import { documentedPath, operationOf } from '../http/openapi/operations.ts'
import { problemSchema } from '../http/openapi/responses.ts'
import { tagGroups, tags } from '../http/openapi/tags.ts'
import { firstRequest } from '../http/reference.ts'
import type { Route } from '../http/route.ts'
import { anyRequest, otherMethods, servicePaths } from '../telemetry/service-paths.ts'

export type OpenApi = Json & {
  paths: Record<string, Record<string, Json>>
  webhooks: Record<string, { post: Json }>
  components: { schemas: Record<string, Json>; securitySchemes: Json }
}

/** Links are relative, so a proxy may add a path. */
const description = `Organization API keys and signed webhooks.

## First request

Create an API key in the [console](./console), or with \`npx keyhook keys create --name first\`. Then list what it reaches:

\`\`\`sh
${firstRequest}
\`\`\`

The \`id\` of an answered organization is the \`org_id\` of the other paths. Paths below \`/api/v1\` are the published interface;
those below \`/platform/v1\` are of this server.

## Guides

${guides.map((guide) => `- [${guide.title}](.${guidePath(guide)}): ${guide.about}`).join('\n')}

## Requests and errors

Every request sends \`Authorization: Bearer <token>\`, with an API key or a login token. Bodies are JSON. An error is
answered with \`application/problem+json\` (RFC 9457); test its \`code\`. Besides the answers listed with an operation, any
request can be answered 400 (not HTTP/1.1), 404 (no such path), 405 (no such method), 408 or 417.

The published interface leaves some things open. \`x-basis\` says whether it shows something (\`specified\`) or we chose it
(\`chosen\`, by entry \`x-decision\` of the [register of decisions](./docs/decisions)). A part without \`x-basis\` has that of
what it is part of: a parameter that of its operation, a field that of its schema.`

const oneConnection = choice(
  76,
  'Pipelined requests of one connection are processed one after the other; with more than 200 waiting it is closed. A client that closes its sending side still gets the answers.',
)

const versions = choice(
  29,
  'Under v1 things are only added. A removal would be announced with `Deprecation` and `Sunset` first.',
)

const bearer: Choice[] = [
  choice(
    5,
    'The scheme may be written in any case. Revoked, unknown, expired and malformed tokens are answered alike.',
  ),
  choice(
    11,
    'An API key reaches the organization it was made in, and no other. It does not expire, unless that was chosen for it or the organization or the operator has set how long new keys last at most.',
  ),
  choice(26, 'A login token is a JWT of the operator’s OpenID Connect issuer, or of the local issuer.'),
]

type Options = {
  serviceName?: string
  /** The event types that are declared beside the six. */
  custom?: readonly CustomEventType[]
  /** Names that stored records can have besides: of types that are no longer declared. */
  removedTypes?: readonly string[]
}

/** The OpenAPI document, made from the route table and the schemas that validate. */
export function createOpenApi(
  routes: readonly Route[],
  { serviceName = 'Service', custom = [], removedTypes = [] }: Options = {},
): OpenApi {
  const schemas: Record<string, Json> = { Problem: plain(problemSchema, {}) }
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of routes) {
    const path = documentedPath(route.path)
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operationOf(route, schemas)
  }
  Object.assign(paths, servicePaths())
  for (const path of Object.values(paths)) path['x-other-methods'] = otherMethods(Object.keys(path))
  const described = withChoicesDescribed({
    openapi: '3.1.1',
    info: {
      title: 'Keyhook',
      version: '1',
      contact: { name: 'The operator of this server' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description,
      'x-chosen': [versions, oneConnection],
    },
    // The server that sent this document. Not ".": many programs put this text before the path as it is.
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    tags,
    'x-tagGroups': tagGroups,
    paths,
    'x-any-request': anyRequest,
    webhooks: deliveryWebhooks(serviceName, custom),
    components: {
      schemas,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key or a login token, sent alike.',
          ...specified,
          'x-chosen': bearer,
        },
      },
    },
  })
  const accepted = custom.map(({ name }) => name)
  const document = withEventTypes(described, { accepted, shown: [...accepted, ...removedTypes] }) as OpenApi
  // Added last and as they are: what looks like a mark of ours in them is none.
  Object.assign(document.components.schemas, dataSchemas(custom))
  return document
}

/** Adds the choices inside of a thing to its description. Tools show descriptions; they do not know the `x-` marks. */
function withChoicesDescribed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withChoicesDescribed)
  if (typeof node !== 'object' || node === null) return node
  const copy = mapValues(node, (value, key) => {
    if (['example', 'examples', 'x-chosen'].includes(key)) return value
    // A field may have one of these names.
    return key === 'properties' ? mapValues(value as object, withChoicesDescribed) : withChoicesDescribed(value)
  })
  const choices = (copy['x-chosen'] ?? []) as Choice[]
  const text = [copy.description, ...choices.map((one) => one.description)].filter(Boolean)
  return text.length === 0 ? copy : { ...copy, description: text.join('title' in copy ? '\n\n' : ' ') }
}

const mapValues = (node: object, map: (value: unknown, key: string) => unknown): Json =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, map(value, key)]))

/**
 * The OpenAPI document as text, with the event types that are declared at the time of the request. It is made again only when
 * they have changed.
 */
export function createServedDocument(deps: {
  routes: readonly Route[]
  serviceName: string
  /** Declared now; and all names that were ever declared. */
  readEventTypes(): Promise<{ custom: readonly CustomEventType[]; everyName: readonly string[] }>
}): () => Promise<string> {
  let made: { of: string; text: string } | null = null
  return async () => {
    const { custom, everyName } = await deps.readEventTypes()
    const of = JSON.stringify([custom, everyName])
    if (made?.of !== of) {
      const current = new Set(custom.map(({ name }) => name))
      const removedTypes = everyName.filter((name) => !current.has(name))
      made = { of, text: JSON.stringify(createOpenApi(deps.routes, { ...deps, custom, removedTypes })) }
    }
    return made.text
  }
}
