import type { ErrorObject } from 'ajv'
import { isTransient, isUnavailable } from '../db/database.ts'
import { Fault, type FaultCode, type FieldError, invalid } from '../kernel/faults.ts'
import { unavailable } from './problems.ts'
import { fieldErrors } from './validation.ts'

/** What Fastify itself refuses, in our words. */
const refusals: Record<string, { code: FaultCode; public: string }> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'request.too_large', public: 'The body is larger than this service takes.' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'request.unsupported_media_type',
    public: 'Send the body as JSON, with "Content-Type: application/json".',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'request.malformed',
    public: 'The body is not as long as Content-Length says.',
  },
  // Such as the first line of HTTP/2, whose target is no path.
  FST_ERR_NOT_FOUND: { code: 'request.malformed', public: 'The target of the request is not a path.' },
  FST_ERR_BAD_URL: { code: 'request.malformed', public: 'The path is not a valid URL path.' },
}

/** Every error becomes a fault here. What we did not expect stays inside: the caller learns only that it happened. */
export function faultOf(error: unknown): Fault {
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
  const refusal = refusals[code ?? '']
  if (refusal !== undefined) return new Fault(refusal.code, { public: refusal.public })
  // Fastify says so when the client hung up in the middle of its body: not our fault, and not the database's.
  if (statusCode === 400) return new Fault('request.malformed', { public: 'The body did not arrive.' })
  if (isUnavailable(error) || isTransient(error)) return unavailable(String(error), error)
  return new Fault('internal', {
    public: 'Something went wrong on our side. If it stays, tell the operator the request id.',
    internal: String(error),
    cause: error,
  })
}
