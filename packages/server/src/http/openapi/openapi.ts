import { type Basis, choice, specified, withChoices } from '../basis.ts'
import type { Route } from '../route.ts'
import { type Json, plain } from './openapi-node.ts'
import { operationOf } from './openapi-operation.ts'
import { documentedPath } from './openapi-parameters.ts'
import { anyRequest, otherMethods, servicePaths } from './openapi-service.ts'
import { deliveryWebhooks } from './openapi-webhooks.ts'
import { problemSchema } from './problem-schema.ts'

export type OpenApi = Json & {
  paths: Record<string, Record<string, Json>>
  webhooks: Record<string, { post: Json }>
  components: { schemas: Record<string, Json>; securitySchemes: Json }
}

const description =
  'Organization API keys and webhooks. `x-basis: specified` marks what the published interface shows; `x-basis: chosen` marks what it leaves open, with the number of the decision that fills the gap (docs/decisions). `x-chosen` lists what was left open inside of something else.'

const oneConnection = choice(
  76,
  'Requests that are sent ahead on one connection are seen to one after the other; with more than 200 waiting it is closed. Whoever closes the sending side gets the answers all the same.',
)

const versions = choice(
  29,
  'Under v1 things are only added. A removal would be announced with `Deprecation` and `Sunset` first.',
)

const bearer: Basis = withChoices(specified, [
  choice(
    5,
    'The scheme may be written in any case. Revoked, unknown, expired and malformed tokens are answered alike.',
  ),
  choice(11, 'An API key reaches the organization it was made in, and no other; it does not expire.'),
  choice(26, 'A login token is a JWT of the operator’s OpenID Connect issuer, or of the local issuer.'),
])

/** The OpenAPI document, made from the route table and the very schemas that validate. */
export function createOpenApi(routes: readonly Route[], { serviceName = 'Service' } = {}): OpenApi {
  const schemas: Record<string, Json> = { Problem: plain(problemSchema, {}) }
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of routes) {
    const path = documentedPath(route.path)
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operationOf(route, schemas)
  }
  Object.assign(paths, servicePaths())
  for (const path of Object.values(paths)) path['x-other-methods'] = otherMethods(Object.keys(path))
  return {
    openapi: '3.1.1',
    info: {
      title: 'Keyhook',
      version: '1',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description,
      'x-chosen': [versions, oneConnection],
    },
    // Wherever this document came from.
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths,
    'x-any-request': anyRequest,
    webhooks: deliveryWebhooks(serviceName),
    components: {
      schemas,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key or a login token, sent alike.',
          ...bearer,
        },
      },
    },
  }
}
