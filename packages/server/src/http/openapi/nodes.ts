import { type Basis, basisMarks, chosen, type Json } from '../basis.ts'
import { recordExamples } from './examples.ts'

export const header = (name: string, description: string, basis: Basis, schema: Json = { type: 'string' }): Json => ({
  [name]: { description, schema, ...basis },
})

export const noStore = header('Cache-Control', 'Always `no-store`.', chosen(33))

/** RFC 3986 allows the scheme in any case. */
const webhookUrlPattern = '^[Hh][Tt][Tt][Pp][Ss]://[^/]'

/**
 * A copy without TypeBox's private marks. A schema with an `$id` moves to the components, together with its example, and
 * leaves a reference behind.
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
  // For tools that do not know our own format.
  if (rest.format === 'webhook-url') Object.assign(copy, { pattern: webhookUrlPattern })
  if (typeof $id !== 'string') return copy
  const example = recordExamples[$id]
  schemas[$id] = example === undefined ? copy : { ...copy, examples: [example] }
  // OpenAPI 3.1 allows these marks beside a reference.
  const marks = Object.entries(copy).filter(([key]) => basisMarks.includes(key))
  return { $ref: `#/components/schemas/${$id}`, ...Object.fromEntries(marks) }
}
