import type { ValidateFunction } from 'ajv'
import { isRawNumber, parseExactly } from '../kernel/exact-json.ts'
import { checkData, compileNewSchema } from './event-schema.ts'
import { type CustomEventType, isPublishedType } from './event-types.ts'
import { measureData } from './events.ts'
import { labelProblem } from './label.ts'
import { keywordsOf } from './subschemas.ts'

/** Lower case and dots as in the six. The name is sent in a header, and becomes a part of identifiers in /openapi.json. */
const namePattern = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/
export const isTypeName = (text: string): boolean => text.length <= nameCharsMax && namePattern.test(text)

const nameCharsMax = 100
const descriptionCharsMax = 1_000
const schemaBytesMax = 65_536
const customTypesMax = 200

const fields = ['name', 'description', 'schema', 'example']
/** They name a schema by a base of its own, which would no longer fit inside of /openapi.json. */
const refusedKeywords = ['$id', '$anchor', '$dynamicAnchor', '$dynamicRef', '$vocabulary']
const dialect = 'https://json-schema.org/draft/2020-12/schema'

type Read = { types: CustomEventType[]; problems: string[] }

/** Reads the operator's file: a JSON array of event types. Reports every problem, each with the type it is about. */
export function readDeclarations(text: string, { eventBytesMax }: { eventBytesMax: number }): Read {
  let list: unknown
  try {
    list = parseExactly(text)
  } catch (error) {
    return { types: [], problems: [`the file is not JSON: ${(error as Error).message}`] }
  }
  if (!Array.isArray(list)) return { types: [], problems: ['the file must hold a JSON array of event types'] }
  const problems: string[] = []
  if (list.length > customTypesMax) problems.push(`at most ${customTypesMax} event types can be declared`)
  const types: CustomEventType[] = []
  for (const [i, given] of list.slice(0, customTypesMax).entries()) {
    const { type, found } = readDeclaration(given, eventBytesMax)
    const where = typeof type?.name === 'string' && type.name !== '' ? type.name : `number ${i + 1}`
    if (type !== null && types.some(({ name }) => name === type.name)) found.push('name: is declared twice')
    problems.push(...found.map((problem) => `${where}: ${problem}`))
    if (type !== null) types.push(type)
  }
  return { types, problems }
}

type Json = { [key: string]: unknown }
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value)

function readDeclaration(given: unknown, eventBytesMax: number): { type: CustomEventType | null; found: string[] } {
  if (!isObject(given)) return { type: null, found: ['must be a JSON object'] }
  const { name, description, schema, example } = given
  const unknown = Object.keys(given).filter((field) => !fields.includes(field))
  const compiled = compile(schema)
  const found = [
    ...unknown.map((field) => `${field}: is not a known field (${fields.join(', ')})`),
    ...nameProblems(name),
    ...descriptionProblems(description),
    ...compiled.problems,
    ...exampleProblems(example, compiled.validate, eventBytesMax),
  ]
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  const json = (value: unknown) => JSON.stringify(value ?? null)
  const type = { name: text(name), description: text(description), schema: json(schema), example: json(example) }
  return { type, found }
}

function nameProblems(name: unknown): string[] {
  if (typeof name !== 'string' || !isTypeName(name)) {
    return [`name: must be lower-case words with dots, such as order.shipped, and at most ${nameCharsMax} characters`]
  }
  return isPublishedType(name) ? ['name: is one of the six types of the interface'] : []
}

function descriptionProblems(description: unknown): string[] {
  if (typeof description !== 'string') return ['description: must be a string']
  if (description.length > descriptionCharsMax) {
    return [`description: must have at most ${descriptionCharsMax} characters`]
  }
  const problem = labelProblem(description)
  return problem === null ? [] : [`description: ${problem}`]
}

type Compiled = { validate: ValidateFunction | null; problems: string[] }

function compile(schema: unknown): Compiled {
  const refuse = (...problems: string[]): Compiled => ({ validate: null, problems })
  if (!isObject(schema)) return refuse('schema: must be a JSON object (JSON Schema 2020-12)')
  const bytes = Buffer.byteLength(JSON.stringify(schema))
  if (bytes > schemaBytesMax) return refuse(`schema: must have at most ${schemaBytesMax} bytes, and has ${bytes}`)
  const plain = plainOf(schema)
  if ('$schema' in plain && plain.$schema !== dialect) {
    return refuse(`schema: $schema must be ${dialect}, or absent`)
  }
  const problems = referenceProblems(plain)
  if (problems.length > 0) return refuse(...problems)
  try {
    return { validate: compileNewSchema(plain), problems: [] }
  } catch (error) {
    return refuse(`schema: ${(error as Error).message}`)
  }
}

function referenceProblems(schema: Json): string[] {
  const used = keywordsOf(schema)
  const refused = new Set(used.map(([keyword]) => keyword).filter((keyword) => refusedKeywords.includes(keyword)))
  const outside = used.filter(
    ([keyword, value]) => keyword === '$ref' && !(typeof value === 'string' && value.startsWith('#')),
  )
  return [
    ...[...refused].map((keyword) => `schema: ${keyword} cannot be used; refer to parts by #/$defs/…`),
    ...outside.map(
      ([, value]) => `schema: $ref ${JSON.stringify(value)} must refer to a part of it, such as #/$defs/…`,
    ),
  ]
}

function exampleProblems(example: unknown, validate: ValidateFunction | null, bytesMax: number): string[] {
  if (!isObject(example)) return ['example: must be a JSON object']
  const { fault } = measureData(example, bytesMax)
  if (fault !== null) return [`example: ${fault}`]
  if (validate === null) return []
  const [problems] = checkData([{ validate, data: plainOf(example) }])
  return problems!.map((problem) =>
    'reason' in problem
      ? `example: ${problem.reason}`
      : `example${problem.instancePath}: ${problem.message ?? 'does not match the schema'}`,
  )
}

/** With JavaScript's numbers, which validation takes. */
const plainOf = (value: Json): Json => JSON.parse(JSON.stringify(value)) as Json
