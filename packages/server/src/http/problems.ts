import type { FastifyReply } from 'fastify'
import { Fault, type FaultCode, type FieldError, faultCatalogue } from '../kernel/faults.ts'

export type Problem = {
  type: string
  title: string
  status: number
  code: FaultCode
  detail: string
  errors?: readonly FieldError[]
  request_id?: string
}

const problemType = (code: FaultCode): string => `urn:keyhook:problem:${code}`

/** RFC 9457. Nothing of the request is echoed: another organization's id and a made-up one must read the same. */
export const problemOf = (fault: Fault, requestId?: string): Problem => ({
  type: problemType(fault.code),
  title: faultCatalogue[fault.code].title,
  status: fault.status,
  code: fault.code,
  detail: fault.public,
  ...(fault.errors && { errors: fault.errors }),
  // Only where we are at fault ourselves: it is what a person quotes when they ask us about it.
  ...(fault.code === 'internal' && requestId && { request_id: requestId }),
})

export function sendProblem(reply: FastifyReply, fault: Fault): void {
  void reply
    .code(fault.status)
    .headers({ 'cache-control': 'no-store', ...fault.headers })
    .type('application/problem+json; charset=utf-8')
    .send(JSON.stringify(problemOf(fault, reply.request.id)))
}

const realm = 'Bearer realm="keyhook"'

/** RFC 6750, 3.1: no error code when the request carried no credentials at all. */
export const authenticationRequired = (): Fault =>
  new Fault('auth.required', {
    public: 'Send "Authorization: Bearer <token>" with an API key or a login token.',
    headers: { 'www-authenticate': realm },
  })

/** One answer for revoked, unknown, expired and malformed: which of them it was is nobody's business. */
export const invalidToken = (internal: string): Fault =>
  new Fault('auth.invalid_token', {
    public: 'The token is malformed, expired, revoked or unknown.',
    internal,
    headers: { 'www-authenticate': `${realm}, error="invalid_token"` },
  })

export const permissionMissing = (permission: string, role: string): Fault =>
  new Fault('auth.permission_missing', {
    public: `This needs the permission ${permission}, which your role in this organization (${role}) does not have.`,
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="${permission}"` },
  })

export const operatorOnly = (): Fault =>
  new Fault('auth.permission_missing', {
    public: 'This needs an operator token, as "npx keyhook token issue --operator" mints.',
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="operator"` },
  })

export const unavailable = (internal: string, cause?: unknown): Fault =>
  new Fault('service.unavailable', {
    public:
      'The database cannot be reached, or cannot do this at the moment. Nothing was changed by this request as far as we know; try again shortly.',
    internal,
    headers: { 'retry-after': '2' },
    cause,
  })
