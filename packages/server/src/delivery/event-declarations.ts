import type { ErrorObject, ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { isRawNumber, parseExactly } from '../lib/json.ts'
import { labelProblem } from '../lib/label.ts'
import { runLimited, TookTooLong } from '../lib/run-limited.ts'
import { type CustomEventType, isPublishedType, measureData } from './events.ts'
import { isOptionalType } from './optional-types.ts'

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
  if (isOptionalType(name)) {
    return [`name: is a type of Keyhook itself; enable it with "keyhook event-types enable --types ${name}"`]
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

/*
 * JSON Schema (draft 2020-12) of the data of declared event types. Unknown keywords are errors, because they are typing errors
 * more often than not. `format` is an annotation, as the draft says: the regular expressions behind formats can take minutes.
 */
const options = {
  allErrors: true,
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  validateFormats: false,
  logger: false,
} as const

let declaring: Ajv2020 | null = null

/** Checks the schema itself too, and throws an error for an operator to read. */
function compileNewSchema(schema: object): ValidateFunction {
  declaring ??= new Ajv2020(options)
  return declaring.compile(schema)
}

/** An own instance for each schema, so that one that is no longer used can be collected. */
const compileStored = (schema: string): ValidateFunction =>
  new Ajv2020({ ...options, meta: false, validateSchema: false }).compile(JSON.parse(schema))

/** Patterns and `uniqueItems` can take very long, and nothing else runs meanwhile. */
const checkMsMax = 250

export type DataProblem = ErrorObject | { instancePath: string; reason: string }

/** What is wrong with each of the data. Together they may take a quarter of a second. */
export function checkData(given: readonly { validate: ValidateFunction; data: unknown }[]): DataProblem[][] {
  const problems: DataProblem[][] = given.map(() => [])
  let i = 0
  try {
    runLimited(() => {
      for (; i < given.length; i++) {
        const { validate, data } = given[i]!
        if (!validate(data)) problems[i] = [...validate.errors!]
      }
    }, checkMsMax)
  } catch (error) {
    // A schema that refers to itself without an end overflows the stack.
    if (!(error instanceof TookTooLong || error instanceof RangeError)) throw error
    problems[i] = [{ instancePath: '', reason: 'takes too long to check against the schema of its type' }]
  }
  return problems
}

const compiledMax = 500

/** Validators by the text of their schema, so that a changed schema is never mistaken for the one before. */
export function createSchemaCache(): (schema: string) => ValidateFunction {
  const compiled = new Map<string, ValidateFunction>()
  return (schema) => {
    const known = compiled.get(schema)
    if (known !== undefined) return known
    if (compiled.size >= compiledMax) compiled.delete(compiled.keys().next().value!)
    const validate = compileStored(schema)
    compiled.set(schema, validate)
    return validate
  }
}

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

/** A copy of a schema with `change` applied to it and to every schema within, and to no value that only looks like one. */
export function mapSchemas(schema: unknown, change: (schema: Json) => Json): unknown {
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

function keywordsOf(schema: unknown): [string, unknown][] {
  const found: [string, unknown][] = []
  mapSchemas(schema, (one) => {
    found.push(...Object.entries(one))
    return one
  })
  return found
}
