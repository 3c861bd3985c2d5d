import { type FaultCode, faultCatalogue } from '../../kernel/faults.ts'
import { type Basis, type Choice, choice, chosen, withChoices } from '../basis.ts'
import type { Conflict, Route } from '../route.ts'
import { header, type Json, noStore, plain, problemContent } from './openapi-node.ts'

/** What an operation answers, by status: its success, and every problem that it may end in. */
export function responsesOf(route: Route, schemas: Record<string, Json>): Record<string, Json> {
  const { status, description, schema } = route.success
  return {
    [status]: {
      description,
      ...chosen(1),
      headers: { ...successHeaders(route), ...noStore },
      ...(schema && { content: { 'application/json': { schema: successSchema(plain(schema, schemas)) } } }),
    },
    ...problemsOf(route),
  }
}

const successSchema = (schema: Json): Json =>
  isList(schema) ? { ...schema, description: 'Newest first.', ...chosen(2) } : schema

const isList = (schema: unknown): boolean => (schema as Json | undefined)?.type === 'array'

function successHeaders(route: Route): Json {
  if (route.success.status === 201) return header('Location', 'The path of what was made.', chosen(1))
  if (isList(route.success.schema)) return header('Link', '`rel="next"` on a page that is not the last.', chosen(3))
  return {}
}

type Problem = { code: FaultCode; when?: string; basis: Basis }

function problemsOf(route: Route): Record<string, Json> {
  const codes: (FaultCode | Conflict)[] = [
    'request.malformed',
    'auth.required',
    'auth.invalid_token',
    'request.invalid',
    'internal',
    'service.unavailable',
    ...(route.faults ?? []),
  ]
  if (route.path.includes(':orgId') || route.needs === 'operator') codes.push('auth.permission_missing')
  // A DELETE has no body of its own, but one that is sent is read and may be refused.
  if (route.method !== 'GET') codes.push('request.too_large', 'request.unsupported_media_type')
  const answers: Record<string, Json> = {}
  for (const one of new Set(codes)) {
    const problem = typeof one === 'string' ? { code: one, basis: basisOf(one, route) } : conflictOf(one)
    const { status } = faultCatalogue[problem.code]
    answers[status] = answers[status] ? also(answers[status], problem) : problemResponse(problem)
  }
  return answers
}

const conflictOf = ({ code, decision, when }: Conflict): Problem => ({ code, when, basis: chosen(decision) })

/** One answer of the catalogue, wherever it is given. */
export const problemResponse = (problem: Problem, headers: Json = {}): Json => ({
  description: sentence(problem),
  ...problem.basis,
  headers: { ...headersOf(problem.code), ...headers, ...noStore },
  content: problemContent,
})

const sentence = ({ code, when }: Problem): string =>
  `\`${code}\`: ${faultCatalogue[code].title}${when === undefined ? '' : `, ${when}`}.`

/** A second code with the same status; where it rests on another decision, it says so itself. */
export function also(response: Json, problem: Problem): Json {
  const same = response['x-decision'] === (problem.basis as { 'x-decision': number })['x-decision']
  if (same) return { ...response, description: `${response.description} ${sentence(problem)}` }
  const said = choice((problem.basis as { 'x-decision': number })['x-decision'], sentence(problem))
  return { ...response, 'x-chosen': [...((response['x-chosen'] as Choice[]) ?? []), said] }
}

const decisions: Partial<Record<FaultCode, number>> = {
  'auth.required': 5,
  'auth.invalid_token': 5,
  'auth.permission_missing': 6,
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
}

const choices: Partial<Record<FaultCode, Choice>> = {
  'auth.required': choice(
    76,
    'Asked for right after path and method are known, before the body is read, and again when the body came later.',
  ),
  'auth.permission_missing': choice(
    76,
    'Said before the body is read, and before an id within the organization is looked up.',
  ),
  'request.too_large': choice(27, '64 KiB, unless the operator has set another limit.'),
  'request.invalid': choice(77, 'A query parameter that is not listed here is refused like an unknown field.'),
}

export function basisOf(code: FaultCode, route?: Route): Basis {
  const own = route?.bodyBytesMax
  if (code === 'request.too_large' && own !== undefined) {
    return withChoices(chosen(8), [choice(41, `${own / 1_048_576} MiB for all of them together.`)])
  }
  return withChoices(chosen(decisions[code] ?? 4), choices[code] === undefined ? [] : [choices[code]])
}

function headersOf(code: FaultCode): Json {
  if (code === 'auth.permission_missing') {
    return header(
      'WWW-Authenticate',
      '`Bearer error="insufficient_scope"` with the `scope` that is missing.',
      chosen(6),
    )
  }
  if (code === 'auth.required' || code === 'auth.invalid_token') {
    return header('WWW-Authenticate', '`Bearer`, and `error="invalid_token"` if there was a token.', chosen(5))
  }
  return code === 'service.unavailable' ? header('Retry-After', 'Seconds to wait.', chosen(4)) : {}
}
