import fc from 'fast-check'

export type Schema = {
  $ref?: string
  type?: string
  format?: string
  pattern?: string
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
}

/** Values as a schema of the document describes them. Knows the keywords that our requests use. */
export function valuesOf(schema: Schema, resolve: (ref: string) => Schema): fc.Arbitrary<unknown> {
  const of = (one: Schema) => valuesOf(one, resolve)
  if (schema.$ref !== undefined) return of(resolve(schema.$ref))
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  const branches = schema.anyOf ?? schema.oneOf
  if (branches !== undefined) return fc.oneof(...branches.map(of))
  switch (schema.type) {
    case 'string':
      return text(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1_000, max: schema.maximum ?? 1_000_000 })
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e6, max: schema.maximum ?? 1e6, noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const { minItems: minLength = 0, maxItems = 5 } = schema
      const length = { minLength, maxLength: Math.min(maxItems, minLength + 3) }
      const item = of(schema.items ?? {})
      return schema.uniqueItems
        ? fc.uniqueArray(item, { ...length, selector: (one) => JSON.stringify(one) })
        : fc.array(item, length)
    }
    case 'object': {
      const properties = Object.entries(schema.properties ?? {}).map(([name, one]) => [name, of(one)] as const)
      return fc.record(Object.fromEntries(properties), { requiredKeys: (schema.required ?? []) as never[] })
    }
    default:
      return fc.dictionary(fc.string({ maxLength: 10 }), fc.jsonValue({ maxDepth: 1 }))
  }
}

function text({ format, pattern, minLength = 0, maxLength = 100 }: Schema): fc.Arbitrary<string> {
  const fits = (value: string) => {
    const { length } = [...value]
    return length >= minLength && length <= maxLength && (pattern === undefined || new RegExp(pattern, 'u').test(value))
  }
  if (format === 'date-time') {
    const [min, max] = [new Date('0001-01-01T00:00:00Z'), new Date('9999-12-31T23:59:59Z')]
    return fc.date({ min, max, noInvalidDate: true }).map((at) => at.toISOString())
  }
  if (format === 'webhook-url') return fc.webUrl({ validSchemes: ['https'] }).filter(fits)
  if (format === 'email-address') return fc.emailAddress().filter(fits)
  if (format === 'label' || pattern === undefined)
    return fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, minLength + 30) }).filter(fits)
  return fc.stringMatching(new RegExp(pattern)).filter(fits)
}

const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 1 }),
  fc.constantFrom(
    null,
    '',
    ' ',
    0,
    -1,
    1e9,
    true,
    [],
    {},
    'x'.repeat(300),
    '2026-02-30T00:00:00Z',
    'a\u202eb',
    '\u0000',
  ),
)

/** Such a value with one place changed: a field left out, added, or replaced by anything. Whether it is valid still is another question. */
export const changed = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc
    .tuple(values, fc.nat(), anything, fc.constantFrom('replace', 'remove', 'add'))
    .map(([value, place, other, how]) => {
      if (typeof value !== 'object' || value === null) return other
      if (Array.isArray(value)) return how === 'remove' ? value.slice(1) : [...value, other]
      const names = Object.keys(value)
      const name = names[place % Math.max(1, names.length)]
      if (how === 'add' || name === undefined) return { ...value, unknown_field: other }
      const { [name]: _, ...others } = value as Record<string, unknown>
      return how === 'remove' ? others : { ...others, [name]: other }
    })
