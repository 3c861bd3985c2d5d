import type { TSchema } from 'typebox'
import { permissionTable, type Role } from '../../access/roles.ts'
import { type Choice, choice, type Json } from '../basis.ts'
import { idempotencyHeader, takesIdempotencyKey } from '../idempotency.ts'
import {
  type DocumentedHeader,
  isBodyOptional,
  pathParameter,
  pathParameterNames,
  patternOf,
  type Route,
} from '../route.ts'
import { exampleOf, plain } from './nodes.ts'
import { responsesOf } from './responses.ts'

export function operationOf(route: Route, schemas: Record<string, Json>): Json {
  const choices = [...(route.choices ?? []), requiredRole(route), ...(route.method === 'GET' ? [headToo] : [])]
  return {
    operationId: operationId(route.summary),
    tags: [route.tag],
    summary: route.summary,
    description: route.description,
    ...route.basis,
    'x-chosen': choices,
    'x-permission': route.needs,
    parameters: parametersOf(route, schemas),
    ...(route.body && { requestBody: requestBody(route, schemas) }),
    responses: responsesOf(route, schemas),
  }
}

/** `Create an API key` becomes `createAnAPIKey`. */
export const operationId = (summary: string): string =>
  summary.replace(/\W+(\w?)/g, (_, letter) => letter.toUpperCase()).replace(/^./, (c) => c.toLowerCase())

export const headToo = choice(71, 'HEAD is answered with the same headers and no body.')

function requestBody(route: Route, schemas: Record<string, Json>): Json {
  const schema = plain(route.body, schemas)
  const example = exampleOf(route.body as unknown as Json)
  return {
    required: !isBodyOptional(route),
    content: {
      'application/json': { schema, example },
      ...(route.takesForm && { 'application/x-www-form-urlencoded': { schema, example } }),
    },
    'x-chosen': [
      choice(8, 'A field that is not listed here is refused, and so is `null` in place of the object.'),
      choice(70, 'Of a field that is named twice the last one counts.'),
    ],
  }
}

/** The decision about who may use a permission, by what the permission is about. */
const decisionOfSubject: Record<string, number> = {
  organizations: 25,
  keys: 25,
  webhooks: 25,
  deliveries: 25,
  databases: 61,
  backups: 61,
  invoices: 61,
  members: 106,
  'service-members': 175,
  audit: 31,
  events: 82,
}

function requiredRole({ needs }: Route): Choice {
  if (needs === 'operator') return choice(79, 'For operators: takes an operator token, and nothing else.')
  const decision = needs === 'deliveries:send' ? 47 : decisionOfSubject[needs.split(':')[0]!]!
  const reaches = Object.entries(permissionTable[needs]) as [Role, string][]
  const [all, own] = ['all', 'own'].map((reach) =>
    reaches.filter(([, given]) => given === reach).map(([role]) => `\`${role}\``),
  )
  const limited = own!.length === 0 ? '' : `; ${own!.join(' and ')} for what is their own`
  return choice(decision, `Needs the permission \`${needs}\`, for the roles ${all!.join(', ')}${limited}.`)
}

/** The path of a route as OpenAPI writes it: `/organizations/{org_id}`. */
export const documentedPath = (path: string): string =>
  path.replace(/:(\w+)/g, (_, name) => `{${pathParameter(name).name}}`)

function parametersOf(route: Route, schemas: Record<string, Json>): Json[] {
  // The basis of the whole query is that of each parameter without one.
  const { properties = {}, ...query } = (route.query ?? {}) as Json & { properties?: Record<string, TSchema> }
  const basis = { 'x-basis': query['x-basis'], 'x-decision': query['x-decision'] }
  return [
    ...pathParameterNames(route.path).map(documentedParameter),
    ...Object.entries(properties).map(([name, schema]) =>
      queryParameter(name, { ...basis, ...plain(schema, schemas) }),
    ),
    ...[...(route.headers ?? []), ...(takesIdempotencyKey(route) ? [idempotencyHeader] : [])].map(headerParameter),
  ]
}

function documentedParameter(name: string): Json {
  const parameter = pathParameter(name)
  return {
    name: parameter.name,
    in: 'path',
    required: true,
    description: parameter.description,
    schema: { type: 'string', pattern: patternOf(parameter) },
    ...parameter.basis,
    ...('prefix' in parameter && { 'x-chosen': [choice(72, `A TypeID that starts with \`${parameter.prefix}_\`.`)] }),
  }
}

const headerParameter = ({ name, description, basis, pattern }: DocumentedHeader): Json => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string', ...(pattern && { pattern }) },
  ...basis,
})

const queryParameter = (
  name: string,
  { description, 'x-basis': basis, 'x-decision': decision, 'x-chosen': choices, ...schema }: Json,
): Json => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
  'x-basis': basis,
  'x-decision': decision,
  'x-chosen': choices,
})
