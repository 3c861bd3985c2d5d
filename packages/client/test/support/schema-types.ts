/** A JSON Schema of the OpenAPI document. */
export type Schema = {
  $ref?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  then?: Schema
  else?: Schema
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  patternProperties?: Record<string, Schema>
  items?: Schema
}

/** The TypeScript type of a schema, as text. `named` gives a type of its own to some schemas, or null. */
export function typeOf(
  schema: Schema,
  schemas: Record<string, Schema>,
  named: (schema: Schema) => string | null,
): string {
  const of = (inner: Schema): string => typeOf(inner, schemas, named)
  const union = (inner: Schema[]) => inner.map((one) => `(${of(one)})`).join(' | ')
  const name = named(schema)
  if (name !== null) return name
  if (schema.$ref) return of(schemas[schema.$ref.split('/').at(-1)!]!)
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.then && schema.else) return union([schema.then, schema.else])
  if (schema.anyOf ?? schema.oneOf) return union((schema.anyOf ?? schema.oneOf)!)
  if (schema.allOf) return schema.allOf.map((one) => `(${of(one)})`).join(' & ')
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => ({ ...schema, type })))
  if (schema.type === 'array') return `(${of(schema.items ?? {})})[]`
  if (schema.type === 'object') return objectType(schema, of)
  if (schema.type === 'integer') return 'number'
  return schema.type ?? 'unknown'
}

function objectType(
  { properties = {}, required = [], patternProperties }: Schema,
  of: (inner: Schema) => string,
): string {
  const [values] = Object.values(patternProperties ?? {})
  const fields = Object.entries(properties)
  if (fields.length === 0) return `Record<string, ${values ? of(values) : 'unknown'}>`
  return `{ ${fields.map(([name, inner]) => `${name}${required.includes(name) ? '' : '?'}: ${of(inner)}`).join('; ')} }`
}
