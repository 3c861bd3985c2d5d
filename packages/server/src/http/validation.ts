import { Ajv, type ErrorObject } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { labelProblem } from '../domain/label.ts'
import { webhookUrlProblem } from '../domain/webhook.ts'
import type { FieldError } from '../kernel/faults.ts'

/** Rules that a JSON schema cannot say. Each tells what is wrong, in words, or null. */
const formats: Record<string, (text: string) => string | null> = {
  label: labelProblem,
  'webhook-url': webhookUrlProblem,
}

const options = { allErrors: true, verbose: true, removeAdditional: false, useDefaults: true } as const
const extensions = ['x-basis', 'x-decision']

const compilerFor = (coerceTypes: boolean): Ajv => {
  const ajv = new Ajv({ ...options, coerceTypes })
  ajv.addVocabulary(extensions)
  for (const [name, problem] of Object.entries(formats)) ajv.addFormat(name, (text) => problem(text) === null)
  return ajv
}

/** A query string is all text, so its numbers are read as numbers; a body says its own types and is held to them. */
export function createValidatorCompiler(): FastifySchemaCompiler<object> {
  const forBodies = compilerFor(false)
  const forQueries = compilerFor(true)
  return ({ schema, httpPart }) => (httpPart === 'querystring' ? forQueries : forBodies).compile(schema)
}

/** Ajv's findings, said so that a person knows what to change and where. */
export function fieldErrors(errors: readonly ErrorObject[], part: string): FieldError[] {
  const seen = new Set<string>()
  return errors.flatMap((error): FieldError[] => {
    const pointer = pointerOf(error)
    // One complaint a field is enough: an empty name is blank, too short and of the wrong format.
    if (seen.has(pointer)) return []
    seen.add(pointer)
    const detail = sentence(error)
    return part === 'querystring' ? [{ parameter: pointer.slice(1), detail }] : [{ pointer, detail }]
  })
}

function pointerOf({ keyword, instancePath, params }: ErrorObject): string {
  const escapeToken = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1')
  if (keyword === 'required') return `${instancePath}/${escapeToken(params.missingProperty)}`
  if (keyword === 'additionalProperties') return `${instancePath}/${escapeToken(params.additionalProperty)}`
  if (keyword === 'uniqueItems') return `${instancePath}/${params.i}`
  return instancePath
}

const articles: Record<string, string> = {
  string: 'a string',
  array: 'an array',
  object: 'a JSON object',
  integer: 'a whole number',
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
      return `repeats ${instancePath}/${params.j}`
    case 'format':
      return formats[params.format]?.(String(data)) ?? `must be a ${params.format}`
    default:
      return message ?? 'is not valid'
  }
}
