import Type from 'typebox'
import { type FaultCode, faultCatalogue } from '../../lib/fault-catalogue.ts'
import { Fault } from '../../lib/faults.ts'
import { type Choice, type Chosen, choice, chosen, type Json, mark } from '../basis.ts'
import { replayedHeader, takesIdempotencyKey } from '../idempotency.ts'
import { problemOf } from '../problems.ts'
import type { Route } from '../route.ts'
import { exampleOf, header, noStore, plain } from './nodes.ts'

/** The responses of an operation by status: its success, and every problem. */
export function responsesOf(route: Route, schemas: Record<string, Json>): Record<string, Json> {
  const { status, description, schema, mediaType = 'application/json' } = route.success
  return {
    [status]: {
      description,
      ...chosen(1),
      headers: { ...successHeaders(route), ...noStore },
      ...(schema && {
        content: {
          [mediaType]: {
            ...successContent(route, plain(schema, schemas)),
            example: exampleOf(schema as unknown as Json),
          },
        },
      }),
    },
    ...problemsOf(route),
  }
}

const successContent = (route: Route, schema: Json): Json => ({
  schema: isPaged(route) ? { description: 'Newest first.', ...chosen(2), ...schema } : schema,
})

const isList = (schema: unknown): boolean => (schema as Json | undefined)?.type === 'array'

function successHeaders(route: Route): Json {
  const documented = [...(route.success.headers ?? []), ...(takesIdempotencyKey(route) ? [replayedHeader] : [])]
  const own = documented.map(({ name, description, basis }) => header(name, description, basis ?? route.basis))
  if (route.success.status === 201) own.push(header('Location', 'The path of what was made.'))
  if (isPaged(route)) own.push(header('Link', '`rel="next"` on a page that is not the last.', chosen(3)))
  return Object.assign({}, ...own)
}

const isPaged = ({ method, success }: Route): boolean => method === 'GET' && isList(success.schema)

/** Without a basis: that of the operation. */
type Problem = { code: FaultCode; when?: string; basis?: Chosen & { 'x-chosen'?: Choice[] } }

function problemsOf(route: Route): Record<string, Json> {
  const codes: FaultCode[] = [
    'request.malformed',
    'auth.required',
    'auth.invalid_token',
    'request.invalid',
    'request.header_too_large',
    'internal',
    'service.unavailable',
    ...(route.faults ?? []),
  ]
  if (takesIdempotencyKey(route)) codes.push('idempotency.key_reused')
  if (route.path.includes(':orgId') || route.needs === 'operator') codes.push('auth.permission_missing')
  if (route.needs !== 'operator') codes.push('request.rate_limited')
  if (route.path.includes(':')) codes.push('not_found')
  // A DELETE takes no body, but one that is sent is read and may be refused.
  if (route.method !== 'GET') codes.push('request.too_large', 'request.unsupported_media_type')
  const answers: Record<string, Json> = {}
  for (const code of new Set(codes)) {
    const problem = { code, basis: basisOf(code, route) }
    const { status } = faultCatalogue[code]
    answers[status] = answers[status] ? also(answers[status], problem) : problemResponse(problem)
  }
  return answers
}

export const problemResponse = (problem: Problem, headers: Json = {}): Json => ({
  description: sentence(problem),
  ...problem.basis,
  headers: { ...headersOf(problem.code), ...headers, ...noStore },
  content: {
    'application/problem+json': {
      schema: { $ref: '#/components/schemas/Problem' },
      example: problemExample(problem.code),
    },
  },
})

const problemExample = (code: FaultCode) =>
  problemOf(new Fault(code, { public: `${faultCatalogue[code].title}.` }), 'req_example_1')

const sentence = ({ code, when }: Problem): string =>
  `\`${code}\`: ${faultCatalogue[code].title}${when === undefined ? '' : `, ${when}`}.`

/** Adds a second code with the same status. */
export function also(response: Json, problem: Problem): Json {
  const decision = problem.basis?.['x-decision']
  if (decision === undefined || decision === response['x-decision']) {
    return { ...response, description: `${response.description} ${sentence(problem)}` }
  }
  const added = choice(decision, sentence(problem))
  return { ...response, 'x-chosen': [...((response['x-chosen'] as Choice[]) ?? []), added] }
}

const decisions: Partial<Record<FaultCode, number>> = {
  'auth.required': 5,
  'auth.invalid_token': 5,
  'auth.permission_missing': 6,
  'auth.login_required': 92,
  not_found: 7,
  'request.malformed': 8,
  'request.too_large': 8,
  'request.unsupported_media_type': 8,
  'request.invalid': 8,
  'request.header_too_large': 8,
  'request.timeout': 8,
  'request.expectation_failed': 8,
  'request.method_not_allowed': 71,
  'limit.reached': 27,
  'request.rate_limited': 178,
  'events.expired': 84,
  'idempotency.key_reused': 96,
  'backup.already_running': 57,
  'backup.being_restored': 60,
  'backup.not_completed': 59,
  'backup.not_running': 158,
  'backup.still_running': 60,
  'database.not_available': 53,
  'delivery.in_flight': 38,
  'events.id_taken': 41,
  'mail.limit_reached': 181,
  'mail.off': 181,
  'member.last_owner': 106,
  'restore.outside_window': 141,
  'user.email_taken': 95,
  'user.subject_taken': 95,
  'user.unverified': 163,
  'webhook.not_rotating': 89,
  'webhook.old_secret_valid': 89,
}

const choices: Partial<Record<FaultCode, Choice>> = {
  'auth.required': choice(
    76,
    'Checked right after path and method are known, before the body is read, and again when the body came later.',
  ),
  'auth.permission_missing': choice(
    76,
    'Checked before the body is read, and before an id within the organization is looked up.',
  ),
  'request.too_large': choice(27, '64 KiB, unless the operator has set another limit.'),
  'request.invalid': choice(77, 'A query parameter that is not listed here is refused like an unknown field.'),
}

export function basisOf(code: FaultCode, route?: Route): NonNullable<Problem['basis']> {
  const own = route?.bodyBytesMax
  if (code === 'request.too_large' && own !== undefined) {
    const { 'x-decision': decision } = route!.basis as Chosen
    return { ...chosen(8), 'x-chosen': [choice(decision, `${own / 1_048_576} MiB for all of them together.`)] }
  }
  return { ...chosen(decisions[code] ?? 4), ...(choices[code] && { 'x-chosen': [choices[code]] }) }
}

function headersOf(code: FaultCode): Json {
  if (code === 'auth.permission_missing') {
    return header('WWW-Authenticate', '`Bearer error="insufficient_scope"` with the `scope` that is missing.')
  }
  if (code === 'auth.required' || code === 'auth.invalid_token') {
    return header('WWW-Authenticate', '`Bearer`, and `error="invalid_token"` if there was a token.', chosen(5))
  }
  if (code === 'request.rate_limited') return header('Retry-After', 'Seconds until the next full minute.', chosen(178))
  return code === 'service.unavailable' ? header('Retry-After', 'Seconds to wait.', chosen(4)) : {}
}

/** The body of every error answer (RFC 9457). */
export const problemSchema = Type.Object(
  {
    type: Type.String({ description: 'A URN that ends in the code.' }),
    title: Type.String({ description: 'The same for every problem of this code.' }),
    status: Type.Integer({ description: 'The status of the answer.' }),
    code: Type.Enum(Object.keys(faultCatalogue) as FaultCode[], { description: 'Stable: test for this one.' }),
    detail: Type.String({ description: 'What happened this time, and what to do.' }),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          {
            pointer: Type.Optional(Type.String({ description: 'JSON pointer into the body.' })),
            parameter: Type.Optional(Type.String({ description: 'Name of the query parameter.' })),
            detail: Type.String({ description: 'What is wrong with it.' }),
          },
          { additionalProperties: false },
        ),
        { description: 'Which fields broke a rule.' },
      ),
    ),
    oldest_sequence: Type.Optional(
      mark(
        chosen(84),
        Type.Integer({ minimum: 1, description: 'With `events.expired`: the oldest number from which all are kept.' }),
      ),
    ),
    request_id: Type.Optional(Type.String({ description: 'On a 500: what to quote to the operator.' })),
  },
  { additionalProperties: false, ...chosen(4) },
)
