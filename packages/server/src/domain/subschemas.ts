type Schema = { [keyword: string]: unknown }

/** Keywords of JSON Schema whose value is a schema, a list of schemas, or schemas by name. Everything else is plain data. */
const single = new Set([
  'not',
  'if',
  'then',
  'else',
  'items',
  'contains',
  'additionalProperties',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
])
const listed = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const named = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'])

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A copy of a schema with `change` applied to it and to every schema within, and to no value that only looks like one. */
export function mapSchemas(schema: unknown, change: (schema: Schema) => Schema): unknown {
  if (!isObject(schema)) return schema
  const within = (value: unknown) => mapSchemas(value, change)
  const copy = Object.entries(change(schema)).map(([keyword, value]): [string, unknown] => {
    if (single.has(keyword)) return [keyword, within(value)]
    if (listed.has(keyword) && Array.isArray(value)) return [keyword, value.map(within)]
    if (!named.has(keyword) || !isObject(value)) return [keyword, value]
    return [keyword, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, within(one)]))]
  })
  return Object.fromEntries(copy)
}

/** The keywords that a schema uses, at any depth, with their values. */
export function keywordsOf(schema: unknown): [string, unknown][] {
  const found: [string, unknown][] = []
  mapSchemas(schema, (one) => {
    found.push(...Object.entries(one))
    return one
  })
  return found
}
