import type { TSchema } from 'typebox'
import { choice, specified, withChoices } from '../basis.ts'
import { pathParameter, pathParameterNames, patternOf } from '../path-parameters.ts'
import type { Route } from '../route.ts'
import { type Json, plain } from './openapi-node.ts'

/** The path of a route as OpenAPI writes it: `/organizations/{org_id}`. */
export const documentedPath = (path: string): string =>
  path.replace(/:(\w+)/g, (_, name) => `{${pathParameter(name).name}}`)

export function parametersOf(route: Route, schemas: Record<string, Json>): Json[] {
  const query = (route.query as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {}
  return [
    ...pathParameterNames(route.path).map(documentedParameter),
    ...Object.entries(query).map(([name, schema]) => queryParameter(name, plain(schema, schemas))),
  ]
}

function documentedParameter(name: string): Json {
  const parameter = pathParameter(name)
  const choices = 'prefix' in parameter ? [choice(72, `A TypeID that starts with \`${parameter.prefix}_\`.`)] : []
  return {
    name: parameter.name,
    in: 'path',
    required: true,
    description: parameter.description,
    schema: { type: 'string', pattern: patternOf(parameter) },
    ...withChoices(parameter.basis ?? specified, choices),
  }
}

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
