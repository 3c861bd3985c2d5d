import { type Choice, choice, chosen, withChoices } from '../basis.ts'
import { curlSample } from './openapi-example.ts'
import { header, type Json, noStore } from './openapi-node.ts'
import { also, basisOf, problemResponse } from './openapi-responses.ts'

type Page = {
  path: string
  decision: number
  summary: string
  description: string
  choices?: Choice[]
  content: Json
  headers?: Json
  problems?: Record<string, Json>
}

const okContent = {
  'application/json': {
    schema: {
      type: 'object',
      properties: { status: { type: 'string', const: 'ok', description: 'Always `ok`.', ...chosen(32) } },
      required: ['status'],
      additionalProperties: false,
    },
  },
}

const textContent = (mediaType: string): Json => ({ [mediaType]: { schema: { type: 'string' } } })

/** What is served besides the route table: about the service itself, for whoever runs it or writes a client. */
const pages: Page[] = [
  {
    path: '/healthz',
    decision: 32,
    summary: 'Alive?',
    description: 'Answers while the process lives.',
    content: okContent,
  },
  {
    path: '/readyz',
    decision: 32,
    summary: 'Ready?',
    description:
      'Answers 200 while the process can do its work, 503 while the database is out of reach, only reads, or takes more than three seconds to answer.',
    content: okContent,
    problems: { 503: problemResponse({ code: 'service.unavailable', basis: chosen(32) }) },
  },
  {
    path: '/metrics',
    decision: 42,
    summary: 'Metrics',
    description: 'Numbers for Prometheus: about the process, and about deliveries. No label names an organization.',
    choices: [
      choice(
        42,
        'Asks for the bearer token of `KEYHOOK_METRICS_TOKEN`; without that setting, answers this machine only.',
      ),
    ],
    content: textContent('text/plain'),
    problems: {
      401: also(
        problemResponse({ code: 'auth.required', when: 'where the operator has set a token', basis: chosen(42) }),
        { code: 'auth.invalid_token', basis: chosen(42) },
      ),
      404: problemResponse({
        code: 'not_found',
        when: 'for callers elsewhere where no token is set',
        basis: chosen(42),
      }),
    },
  },
  {
    path: '/openapi.json',
    decision: 78,
    summary: 'This document',
    description: 'OpenAPI 3.1, made from the schemas that validate.',
    content: { 'application/json': { schema: { type: 'object' } } },
  },
  {
    path: '/docs',
    decision: 78,
    summary: 'Reference page',
    description: 'This document for people: one page without scripts.',
    choices: [choice(78, '`/` leads here, with 302.')],
    content: textContent('text/html'),
    headers: {
      ...header('Content-Security-Policy', 'Nothing is loaded from anywhere.', chosen(78)),
      ...header('X-Content-Type-Options', 'Always `nosniff`.', chosen(78)),
    },
  },
]

export const servicePaths = (): Record<string, Record<string, Json>> =>
  Object.fromEntries(pages.map((page) => [page.path, { get: operationOf(page) }]))

const operationOf = ({
  path,
  decision,
  summary,
  description,
  choices = [],
  content,
  headers,
  problems,
}: Page): Json => ({
  operationId: summary.replace(/\W+(\w?)/g, (_, letter) => letter.toUpperCase()).replace(/^./, (c) => c.toLowerCase()),
  summary,
  description,
  security: [],
  ...withChoices(chosen(decision), [...choices, choice(71, 'HEAD is answered with the same headers and no body.')]),
  parameters: [],
  responses: {
    200: { description: 'What was asked for.', ...chosen(decision), headers: { ...headers, ...noStore }, content },
    ...problems,
  },
  ...curlSample({ method: 'GET', path }),
})

/** On every path: what a method that it does not have is answered. */
export const otherMethods = (methods: readonly string[]): Json => {
  const allowed = methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])).join(', ')
  const allow = header('Allow', 'The methods of this path.', chosen(71), { type: 'string', const: allowed })
  return {
    description: 'Every other method, whoever asks.',
    ...chosen(71),
    responses: { 405: problemResponse({ code: 'request.method_not_allowed', basis: chosen(71) }, allow) },
  }
}

/** Before a path is known there are answers already. */
export const anyRequest: Json = {
  description: 'What any request may be answered, whatever it asks for.',
  ...withChoices(chosen(8), [choice(80, 'No answer carries CORS headers, and none sets a cookie.')]),
  responses: {
    400: problemResponse({
      code: 'request.malformed',
      when: 'because it is not HTTP/1.1 as RFC 9112 has it',
      basis: basisOf('request.malformed'),
    }),
    404: problemResponse({
      code: 'not_found',
      when: 'on a path that is none of these, letter for letter',
      basis: chosen(77),
    }),
    408: problemResponse({ code: 'request.timeout', basis: basisOf('request.timeout') }),
    417: problemResponse({ code: 'request.expectation_failed', basis: basisOf('request.expectation_failed') }),
    431: problemResponse({ code: 'request.header_too_large', basis: basisOf('request.header_too_large') }),
  },
}
