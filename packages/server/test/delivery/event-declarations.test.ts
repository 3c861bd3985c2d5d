import { expect, test } from 'vitest'
import { mapSchemas, readDeclarations } from '../../src/delivery/event-declarations.ts'
import { orderLost, orderShipped, stored } from '../kit/order-types.ts'

const read = (list: unknown) => readDeclarations(JSON.stringify(list), { eventBytesMax: 65_536 })
const problemsOf = (change: object) => read([{ ...orderLost, ...change }]).problems

test('a file with valid types is read as it is', () => {
  expect(read([orderShipped, orderLost])).toEqual({ types: [stored(orderShipped), stored(orderLost)], problems: [] })
  expect(read([])).toEqual({ types: [], problems: [] })
})

test('numbers of an example keep their digits', () => {
  const text = JSON.stringify([{ ...orderLost, example: { amount: 1 } }]).replace(':1}', ':12345678901234567890.10}')
  expect(readDeclarations(text, { eventBytesMax: 1_024 }).types[0]!.example).toBe('{"amount":12345678901234567890.10}')
})

test.each([
  ['the name of one of the six', { name: 'invoice.paid' }, /^invoice.paid: name: is one of the six/],
  ['a name without a dot', { name: 'shipped' }, /^shipped: name: must be lower-case words with dots/],
  ['a name in upper case', { name: 'Order.shipped' }, /name: must be lower-case/],
  ['a name with a line break, which would split a header', { name: 'order.shipped\nx' }, /name: must be/],
  ['a name that is too long', { name: `a.${'b'.repeat(99)}` }, /name: must be/],
  ['no name', { name: undefined }, /^number 1: name: must be/],
  ['an empty description', { description: '' }, /description: must not be blank/],
  ['a description with a line break', { description: 'a\nb' }, /description: must not contain control characters/],
  ['an unknown field', { versoin: 1 }, /versoin: is not a known field/],
  ['no schema', { schema: undefined }, /schema: must be a JSON object/],
  ['a keyword that does not exist', { schema: { requird: ['a'] } }, /schema: strict mode: unknown keyword: "requird"/],
  ['a schema that is none', { schema: { type: 'text' } }, /schema: schema is invalid/],
  [
    'a pattern that is no regular expression',
    { schema: { properties: { a: { pattern: '(' } } } },
    /schema: .*regular/i,
  ],
  ['another draft', { schema: { $schema: 'http://json-schema.org/draft-07/schema#' } }, /\$schema must be https/],
  ['a reference to another host', { schema: { $ref: 'https://example.com/a.json' } }, /must refer to a part of it/],
  ['a reference to nothing', { schema: { $ref: '#/$defs/a' } }, /schema: can't resolve reference/],
  ['an id of its own', { schema: { $id: 'https://example.com/' } }, /\$id cannot be used/],
  ['a schema that is too large', { schema: { title: 'x'.repeat(65_536) } }, /must have at most 65536 bytes/],
  ['a schema that refers to itself without an end', { schema: { $ref: '#' } }, /example: takes too long to check/],
  ['no example', { example: undefined }, /example: must be a JSON object/],
  ['an example that is no object', { example: [] }, /example: must be a JSON object/],
  [
    'an example that does not match the schema',
    { schema: { properties: { a: { type: 'integer' } } }, example: { a: 'x' } },
    /^order.lost_in_transit: example\/a: must be integer$/,
  ],
])('%s is a problem', (_, change, expected) => {
  const problems = problemsOf(change)
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(expected)
})

test('references of a schema are found at any depth, and values that look like one are left alone', () => {
  const ref = { $ref: '#/$defs/a' }
  const schema = {
    properties: { $ref: { type: 'string' }, const: ref, list: { items: { anyOf: [ref] } } },
    additionalProperties: ref,
    enum: [ref],
    default: ref,
    $defs: { a: { prefixItems: [ref], not: ref } },
  }
  const moved = { $ref: 'moved' }
  expect(mapSchemas(schema, (one) => ('$ref' in one && typeof one.$ref === 'string' ? moved : one))).toEqual({
    properties: { $ref: { type: 'string' }, const: moved, list: { items: { anyOf: [moved] } } },
    additionalProperties: moved,
    enum: [ref],
    default: ref,
    $defs: { a: { prefixItems: [moved], not: moved } },
  })
})

test('every problem of a file is reported', () => {
  const { problems } = read([{ ...orderLost, description: 1, example: 1 }, orderShipped, orderShipped, 'x'])
  expect(problems).toEqual([
    'order.lost_in_transit: description: must be a string',
    'order.lost_in_transit: example: must be a JSON object',
    'order.shipped: name: is declared twice',
    'number 4: must be a JSON object',
  ])
})

test('a file that is no JSON, or no array, is a problem', () => {
  expect(readDeclarations('[', { eventBytesMax: 1_024 }).problems[0]).toMatch(/^the file is not JSON/)
  expect(read({}).problems).toEqual(['the file must hold a JSON array of event types'])
  expect(read(Array(201).fill(orderLost)).problems[0]).toBe('at most 200 event types can be declared')
})
