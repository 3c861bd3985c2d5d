import { type Basis, basisMarks, chosen } from '../basis.ts'

export type Json = { [key: string]: unknown }

export const header = (name: string, description: string, basis: Basis, schema: Json = { type: 'string' }): Json => ({
  [name]: { description, schema, ...basis },
})

export const noStore = header('Cache-Control', 'Always `no-store`.', chosen(33))

export const problemContent = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

/** The scheme in any case, as RFC 3986 has it. */
const webhookUrlPattern = '^[Hh][Tt][Tt][Pp][Ss]://[^/]'

/** A copy without TypeBox's private marks; schemas with an `$id` move to the components and leave a reference behind. */
export function plain(schema: unknown, schemas: Record<string, Json>): Json {
  if (Array.isArray(schema)) return schema.map((item) => plain(item, schemas)) as unknown as Json
  if (typeof schema !== 'object' || schema === null) return schema as unknown as Json
  const { $id, ...rest } = schema as Json
  const copy = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, plain(value, schemas)]))
  // What there is of the format's rule that tools which do not know the format can hold a value against.
  if (rest.format === 'webhook-url') Object.assign(copy, { pattern: webhookUrlPattern })
  if (typeof $id !== 'string') return copy
  schemas[$id] = copy
  // A field that refers to a record says itself where it comes from; OpenAPI 3.1 allows that beside a reference.
  const marks = Object.entries(copy).filter(([key]) => basisMarks.includes(key))
  return { $ref: `#/components/schemas/${$id}`, ...Object.fromEntries(marks) }
}
