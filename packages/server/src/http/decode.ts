import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import type { FastifyRequest, FastifySchemaCompiler } from 'fastify'
import { Fault, type FieldError, notFound } from '../lib/faults.ts'
import { parseRecordsExactly } from '../lib/json.ts'
import { emailProblem, labelProblem, webhookUrlProblem } from '../lib/label.ts'
import { parseTimestamp, timestampDetail } from '../lib/time.ts'
import { basisMarks } from './basis.ts'
import { cursorProblem } from './lists.ts'
import { pathParameter, pathParameterNames, patternOf } from './route.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    passesOnNumbers?: boolean
    needsBody?: boolean
    isRead?: boolean
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const malformed = (detail: string): Fault => new Fault('request.malformed', { public: detail })
export const nestedTooDeeply = (): Fault => malformed('The body is nested too deeply.')

const reader =
  (read: (body: Buffer, request: FastifyRequest) => unknown) =>
  (request: FastifyRequest, body: string | Buffer, done: (error: Error | null, value?: unknown) => void): void => {
    try {
      refuseCodings(request.headers)
      done(null, read(body as Buffer, request))
    } catch (error) {
      done(error as Fault)
    }
  }

/** RFC 8259: JSON is UTF-8. A lenient decoder would store replacement characters that the client did not send. */
export const readJson = reader((body, { routeOptions }) =>
  // Many clients put a JSON content type on a DELETE without a body.
  body.length === 0 ? undefined : parse(body, routeOptions.config.passesOnNumbers ? parseRecordsExactly : JSON.parse),
)

/** A form as the object that JSON would give: every value is a string. */
export const readForm = reader((body) => {
  const fields = [...new URLSearchParams(decodeText(body))]
  // RFC 6749, 3.1. Of two tokens one would be checked here and the other perhaps used elsewhere.
  if (new Set(fields.map(([name]) => name)).size < fields.length) throw malformed('A field of the form is repeated.')
  return Object.fromEntries(fields)
})

/** Nothing is decompressed: a small body could become a very large one. */
function refuseCodings(headers: FastifyRequest['headers']): void {
  const content = headers['content-encoding'] ?? 'identity'
  if (content.toLowerCase() !== 'identity') {
    throw new Fault('request.unsupported_media_type', { public: 'Send the body as it is, without a Content-Encoding.' })
  }
  const transfer = headers['transfer-encoding'] ?? 'chunked'
  if (transfer.toLowerCase() !== 'chunked') throw malformed('The only Transfer-Encoding that is known here is chunked.')
}

function parse(body: Buffer, parseText: (text: string) => unknown): unknown {
  const text = decodeText(body)
  try {
    return parseText(text)
  } catch (error) {
    if (error instanceof RangeError) throw nestedTooDeeply()
    // The parser's message quotes the body, which may hold a secret: keep only the position.
    const place = /position \d+/.exec(String(error))?.[0]
    throw malformed(`The body is not valid JSON${place ? ` (at ${place})` : ''}.`)
  }
}

function decodeText(body: Buffer): string {
  try {
    return utf8.decode(body)
  } catch {
    throw malformed('The body is not valid UTF-8.')
  }
}

/** Rules that a JSON schema cannot express. Each returns what is wrong, or null. */
const formats: Record<string, (text: string) => string | null> = {
  label: labelProblem,
  'webhook-url': webhookUrlProblem,
  'date-time': (text) => (parseTimestamp(text) === null ? timestampDetail : null),
  cursor: cursorProblem,
  'email-address': (text) => labelProblem(text) ?? emailProblem(text),
  // By the handler, which knows the types that are declared.
  'event-types': () => null,
}

/** A body of 64 KiB can break a rule 30,000 times; the first errors are enough. */
export const errorsShownMax = 20

/** Types are not coerced. Only the numbers of a query string are parsed first, because a query is all text. */
export function createValidatorCompiler(): FastifySchemaCompiler<object> {
  const ajv = new Ajv({ allErrors: true, verbose: true, removeAdditional: false, useDefaults: true })
  ajv.addVocabulary([...basisMarks, 'x-event-type'])
  for (const [name, problem] of Object.entries(formats)) ajv.addFormat(name, (text) => problem(text) === null)
  return ({ schema, httpPart }) => {
    const validate = ajv.compile(schema)
    return httpPart === 'querystring' ? withNumbersParsed(validate, schema) : validate
  }
}

/** Decimal digits and nothing else: Ajv's own coercion also takes "0x10", "1e2" and " 5". */
function withNumbersParsed(validate: ValidateFunction, schema: object): ValidateFunction {
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

/** Ajv's errors as sentences, with the field or parameter they are about. */
export function fieldErrors(errors: readonly ErrorObject[], part: string): FieldError[] {
  const found = new Map<string, FieldError>()
  for (const error of errors) {
    if (found.size === errorsShownMax) break
    // Only says that a branch failed; the other errors say why.
    if (error.keyword === 'if') continue
    // The error in the other form of a nullable field says more.
    if (error.params.type === 'null' && error.schemaPath.includes('/anyOf/')) continue
    const pointer = pointerOf(error)
    if (error.keyword === 'anyOf' && [...found.keys()].some((one) => one.startsWith(`${pointer}/`))) continue
    // One error per field is enough: an empty name is blank, too short and of the wrong format.
    if (found.has(pointer)) continue
    const isQuery = part === 'querystring'
    const detail = (isQuery && parameterSentence(error)) || sentence(error)
    found.set(pointer, isQuery ? { parameter: pointer.slice(1), detail } : { pointer, detail })
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
  number: 'a number',
  boolean: 'true or false',
}

/** Errors that only a query can have. */
function parameterSentence({ keyword, data }: ErrorObject): string | null {
  if (keyword === 'additionalProperties') return 'is not a known parameter'
  return Array.isArray(data) ? 'must be given once' : null
}

function sentence({ keyword, params, data, instancePath, message, parentSchema = {} }: ErrorObject): string {
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
      return params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} characters`
    case 'maxLength':
      return `must have at most ${params.limit} characters`
    case 'minItems':
      return `must have at least ${params.limit} item${params.limit === 1 ? '' : 's'}`
    case 'maxItems':
      return `must have at most ${params.limit} items`
    // Errors of declared event types come without the schema.
    case 'minimum':
    case 'maximum':
      return rangeText({ [keyword]: params.limit, ...(parentSchema as Limits) })
    case 'pattern':
      return formText({ pattern: params.pattern, ...(parentSchema as Limits) })
    case 'uniqueItems':
      return `repeats ${instancePath}/${Math.min(params.i, params.j)}`
    case 'format':
      return formats[params.format]?.(String(data)) ?? `must be a ${params.format}`
    default:
      return message ?? 'is not valid'
  }
}

type Limits = { minimum?: number; maximum?: number; pattern?: string; examples?: unknown[] }

/** The whole range, whichever end was passed. */
function rangeText({ minimum, maximum }: Limits): string {
  const text = (limit: number) => limit.toLocaleString('en', { maximumFractionDigits: 20 })
  if (minimum === undefined) return `must be at most ${text(maximum!)}`
  return maximum === undefined
    ? `must be at least ${text(minimum)}`
    : `must be from ${text(minimum)} to ${text(maximum)}`
}

function formText({ examples, pattern }: Limits): string {
  return examples?.[0] === undefined ? `must match ${pattern}` : `must have the form of ${JSON.stringify(examples[0])}`
}

/** An id with the wrong form is answered like one that does not exist, so that ids cannot be probed. */
export function createIdCheck(path: string): (params: Readonly<Record<string, string>>) => void {
  const checks = pathParameterNames(path).map((name) => {
    const parameter = pathParameter(name)
    return { name, shown: parameter.name, pattern: new RegExp(patternOf(parameter)) }
  })
  return (params) => {
    for (const { name, shown, pattern } of checks) {
      if (!pattern.test(params[name]!)) throw notFound(`the ${shown} has the wrong form`)
    }
  }
}
