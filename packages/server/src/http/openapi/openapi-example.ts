import type { Json } from './openapi-node.ts'

/** What the ids of a path are called in a shell. */
const variables: Record<string, string> = { org_id: 'ORG', api_key_id: 'KEY_ID' }
const variableOf = (name: string): string => `$${variables[name] ?? name.replace(/_id$/, '').toUpperCase()}`

type Call = { method: string; path: string; token?: string; body?: Json }

/** A line to paste, once `KEYHOOK`, the token and the ids of the path are set. Redoc and others show this extension too. */
export function curlSample({ method, path, token, body }: Call): Json {
  const lines = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}"$KEYHOOK${path.replace(/\{(\w+)\}/g, (_, name) => variableOf(name))}"`,
    ...(token === undefined ? [] : [`-H "Authorization: Bearer $${token}"`]),
    ...(body === undefined ? [] : ['-H "Content-Type: application/json"', `-d '${quoted(exampleOf(body))}'`]),
  ]
  return { 'x-codeSamples': [{ lang: 'Shell', label: 'curl', source: lines.join(' \\\n  ') }] }
}

/**
 * The organization of an example is nobody's: whoever pastes the line means their own. A shell puts nothing into single
 * quotes, so they are closed and opened again.
 */
const quoted = (value: unknown): string => JSON.stringify(value).replace(/"org_\w+"/g, `"'$ORG'"`)

/** The smallest value that the schema takes, from the examples that stand beside its fields. */
function exampleOf(schema: Json): unknown {
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (schema.type === 'array') return [exampleOf(schema.items as Json)]
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] }
  return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name]!)]))
}
