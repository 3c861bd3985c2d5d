import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { labelProblem } from '../domain/label.ts'
import { webhookUrlProblem } from '../domain/webhook.ts'
import type { FieldError } from '../kernel/faults.ts'
import { basisMarks } from './basis.ts'

/** Rules that a JSON schema cannot say. Each tells what is wrong, in words, or null. */
const formats: Record<string, (text: string) => string | null> = {
  label: labelProblem,
  'webhook-url': webhookUrlProblem,
}

/** A body of 64 KiB can break a rule thirty thousand times; nobody reads more than the first few complaints. */
export const errorsShownMax = 20

/** Values are held to the types they come with. Only a query string, which is all text, has its numbers read first. */
export function createValidatorCompiler(): FastifySchemaCompiler<object> {
  const ajv = new Ajv({ allErrors: true, verbose: true, removeAdditional: false, useDefaults: true })
  ajv.addVocabulary(basisMarks)
  for (const [name, problem] of Object.entries(formats)) ajv.addFormat(name, (text) => problem(text) === null)
  return ({ schema, httpPart }) => {
    const validate = ajv.compile(schema)
    return httpPart === 'querystring' ? withNumbersRead(validate, schema) : validate
  }
}

/** Decimal digits and nothing else: Ajv's own coercion also takes "0x10", "1e2" and " 5". */
function withNumbersRead(validate: ValidateFunction, schema: object): ValidateFunction {
  const properties = (schema as { properties?: Record<string, { type?: string }> }).properties ?? {}
  const numbers = Object.keys(properties).filter((name) => properties[name]!.type === 'integer')
  const read = (query: Record<string, unknown>): boolean => {
    for (const name of numbers) {
      const text = query[name]
      if (typeof text === 'string' && /^\d{1,15}$/.test(text)) query[name] = Number(text)
    }
    const valid = validate(query)
    wrapped.errors = validate.errors ?? null
    return valid
  }
  const wrapped = read as unknown as ValidateFunction
  return wrapped
}

/** Ajv's findings, said so that a person knows what to change and where. */
export function fieldErrors(errors: readonly ErrorObject[], part: string): FieldError[] {
  const found = new Map<string, FieldError>()
  for (const error of errors) {
    if (found.size === errorsShownMax) break
    // Says only that a branch did not hold; what is wrong in it is said by the others.
    if (error.keyword === 'if') continue
    const pointer = pointerOf(error)
    // One complaint a field is enough: an empty name is blank, too short and of the wrong format.
    if (found.has(pointer)) continue
    const asked = part === 'querystring'
    const detail = (asked && aboutParameter(error)) || sentence(error)
    found.set(pointer, asked ? { parameter: pointer.slice(1), detail } : { pointer, detail })
  }
  return [...found.values()]
}

function pointerOf({ keyword, instancePath, params }: ErrorObject): string {
  const escapeToken = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1')
  if (keyword === 'required') return `${instancePath}/${escapeToken(params.missingProperty)}`
  if (keyword === 'additionalProperties') return `${instancePath}/${escapeToken(params.additionalProperty)}`
  if (keyword === 'uniqueItems') return `${instancePath}/${Math.max(params.i, params.j)}`
  return instancePath
}

const articles: Record<string, string> = {
  string: 'a string',
  array: 'an array',
  object: 'a JSON object',
  integer: 'a whole number',
}

/** What only a query can do wrong. */
function aboutParameter({ keyword, data }: ErrorObject): string | null {
  if (keyword === 'additionalProperties') return 'is not a known parameter'
  return Array.isArray(data) ? 'must be given once' : null
}

function sentence({ keyword, params, data, instancePath, message }: ErrorObject): string {
  switch (keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
      return 'is not a known field'
    case 'type':
      return `must be ${articles[params.type] ?? params.type}`
    case 'enum':
      return `must be one of ${params.allowedValues.join(', ')}`
    case 'minLength':
      return 'must not be empty'
    case 'maxLength':
      return `must have at most ${params.limit} characters`
    case 'minItems':
      return `must have at least ${params.limit} item${params.limit === 1 ? '' : 's'}`
    case 'maxItems':
      return `must have at most ${params.limit} items`
    case 'uniqueItems':
      return `repeats ${instancePath}/${Math.min(params.i, params.j)}`
    case 'format':
      return formats[params.format]?.(String(data)) ?? `must be a ${params.format}`
    default:
      return message ?? 'is not valid'
  }
}
