import { type Basis, chosen, type Json } from '../basis.ts'
import { exampleTime } from '../schemas.ts'

export const header = (name: string, description: string, basis?: Basis, schema: Json = { type: 'string' }): Json => ({
  [name]: { description, schema, ...basis },
})

export const noStore = header('Cache-Control', 'Always `no-store`.', chosen(33))

/*
 * Our own formats as patterns, for tools that do not know them. Without `\p{…}` and characters beyond U+FFFF, which mean another thing
 * without the flag `u`: of those, invisible ones are refused too. A host name has rules that no pattern has.
 */
const control = '\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069'
const invisible =
  '\\s\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufff8'
const formatting = '\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\ufff9-\\ufffb'
const notInUrl = `${control}${invisible}${formatting}#\\\\`
export const formatPatterns: Readonly<Record<string, string>> = {
  label: `^[^${control}]*[^${control}${invisible}][^${control}]*$`,
  // RFC 3986 allows the scheme in any case.
  'webhook-url': `^[Hh][Tt][Tt][Pp][Ss]://[^/?@${notInUrl}]+([/?][^${notInUrl}]*)?$`,
  'email-address': `^[^@\\s${control}]+@[^@\\s${control}]+$`,
  'event-types': '^[^,]+(,[^,]+)*$',
  cursor: '^[A-Za-z0-9_-]+$',
}

/**
 * A copy without TypeBox's private marks. A schema with an `$id` moves to the components and leaves a reference behind.
 */
export function plain(schema: unknown, schemas: Record<string, Json>): Json {
  if (Array.isArray(schema)) return schema.map((item) => plain(item, schemas)) as unknown as Json
  if (typeof schema !== 'object' || schema === null) return schema as unknown as Json
  const { $id, if: condition, ...rest } = schema as Json
  // We validate with `if` for better messages; tools show `oneOf`.
  if (condition !== undefined) {
    const { then: matching, else: other, ...shared } = rest
    return plain({ ...shared, oneOf: [other, matching] }, schemas)
  }
  const copy = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plain(value, schemas)]))
  const pattern = formatPatterns[rest.format as string]
  if (pattern !== undefined) Object.assign(copy, { pattern })
  if (typeof $id !== 'string') return copy
  schemas[$id] = copy
  return { $ref: `#/components/schemas/${$id}` }
}

/** A value that a schema takes, from the examples beside its parts. Without one, a part is null or the smallest it can be. */
export function exampleOf(schema: Json): unknown {
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (Array.isArray(schema.anyOf)) {
    const [first, ...others] = schema.anyOf as Json[]
    return !('examples' in first!) && others.some(({ type }) => type === 'null') ? null : exampleOf(first!)
  }
  if (schema.format === 'date-time') return exampleTime
  if (schema.type === 'array') return [exampleOf(schema.items as Json)]
  if (schema.type === 'boolean') return false
  if (schema.type === 'integer') return schema.minimum ?? 0
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] }
  const shown = Object.entries(properties).filter(([name, part]) => required.includes(name) || 'examples' in part)
  return Object.fromEntries(shown.map(([name, part]) => [name, exampleOf(part)]))
}
