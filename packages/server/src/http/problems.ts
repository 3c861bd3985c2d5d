import type { ErrorObject } from 'ajv'
import type { FastifyReply } from 'fastify'
import { isTransient, isUnavailable } from '../db/database.ts'
import { type FaultCode, faultCatalogue } from '../lib/fault-catalogue.ts'
import { Fault, type FieldError, invalid, NotFound } from '../lib/faults.ts'
import { isId } from '../lib/ids.ts'
import { fieldErrors } from './decode.ts'
import { pathParameter, pathParameterNames } from './route.ts'

export type Problem = {
  type: string
  title: string
  status: number
  code: FaultCode
  detail: string
  errors?: readonly FieldError[]
  oldest_sequence?: number
  request_id?: string
}

/** RFC 9457. */
export const problemOf = (fault: Fault, requestId?: string): Problem => ({
  type: `urn:keyhook:problem:${fault.code}`,
  title: faultCatalogue[fault.code].title,
  status: fault.status,
  code: fault.code,
  detail: fault.public,
  ...(fault.errors && { errors: fault.errors }),
  ...fault.members,
  // Only for our own errors: the caller quotes it to the operator.
  ...(fault.code === 'internal' && requestId && { request_id: requestId }),
})

export function sendProblem(reply: FastifyReply, fault: Fault): void {
  void reply
    .code(fault.status)
    .headers({ 'cache-control': 'no-store', ...fault.headers })
    .type('application/problem+json; charset=utf-8')
    .send(JSON.stringify(problemOf(fault, reply.request.id)))
}

/** For a type that was removed while the request was in progress. */
export const unknownEventType = (pointer: string): Fault =>
  invalid([{ pointer, detail: 'must be one of the event types that are declared, and this one was just removed' }])

export const unavailable = (internal: string, cause?: unknown): Fault =>
  new Fault('service.unavailable', {
    public:
      'The database cannot be reached, or cannot do this now. Nothing was changed by this request as far as we know; try again shortly.',
    internal,
    headers: { 'retry-after': '2' },
    cause,
  })

const fastifyErrors: Record<string, { code: FaultCode; public: string }> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'request.too_large', public: 'The body is larger than this service takes.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'request.unsupported_media_type',
    public: 'Send the body as JSON, with "Content-Type: application/json".',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'request.malformed',
    public: 'The body is not as long as Content-Length says.',
  },
  // For example the first line of HTTP/2, whose target is no path.
  FST_ERR_NOT_FOUND: { code: 'request.malformed', public: 'The target of the request is not a path.' },
  FST_ERR_BAD_URL: { code: 'request.malformed', public: 'The path is not a valid URL path.' },
}

/** Turns any error into a fault. Of an unexpected error the caller learns only that it happened. */
export function toFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  const { validation, validationContext, code, statusCode } = error as {
    validation?: ErrorObject[]
    validationContext?: string
    code?: string
    statusCode?: number
  }
  if (validation !== undefined) {
    return invalid(fieldErrors(validation, validationContext ?? 'body') as [FieldError, ...FieldError[]])
  }
  const known = fastifyErrors[code ?? '']
  if (known !== undefined) return new Fault(known.code, { public: known.public })
  // The client disconnected in the middle of its body.
  if (statusCode === 400) return new Fault('request.malformed', { public: 'The body did not arrive.' })
  if (isUnavailable(error) || isTransient(error)) return unavailable(String(error), error)
  return new Fault('internal', {
    public: 'Something went wrong on our side. If it stays, tell the operator the request id.',
    internal: String(error),
    cause: error,
  })
}

/** Names what the path asks for, and nothing else: the same text whether it does not exist or belongs to somebody else. */
export function nameMissing(fault: Fault, path: string | undefined, params: unknown): Fault {
  if (!(fault instanceof NotFound) || path === undefined) return fault
  const isOperators = path.startsWith('/operator/')
  const names = pathParameterNames(path).filter((name) => name !== 'orgId' || isOperators)
  if (names.length === 0) return fault
  const asked = names.reverse().map((name) => named(name, (params as Record<string, string>)[name]!))
  const place = isOperators ? '' : ' in this organization'
  return new Fault('not_found', { public: `No ${asked.join(' of ')}${place}.`, internal: fault.message })
}

/** One answer for: not a member, no such organization, a key of another organization. */
export const noAccess = (asked: string, internal: string): Fault =>
  new Fault('not_found', { public: `No ${named('orgId', asked)} that you have access to.`, internal })

/** Only an id of our own form is repeated: anything else may be a secret in the wrong place, and those are shown once. */
function named(parameterName: string, asked: string): string {
  const parameter = pathParameter(parameterName)
  const kind = parameter.name.replace('api_key', 'API key').replace('org_', 'organization_').slice(0, -3)
  return 'prefix' in parameter && isId(parameter.prefix, asked) ? `${kind} '${asked}'` : `${kind} with this id`
}
