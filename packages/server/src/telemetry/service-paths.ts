import { diskLevels } from '../databases/storage-rules.ts'
import { type Choice, choice, chosen, type Json } from '../http/basis.ts'
import { guidePath, guides } from '../http/guides.ts'
import { header, noStore } from '../http/openapi/nodes.ts'
import { headToo, operationId } from '../http/openapi/operations.ts'
import { also, basisOf, problemResponse } from '../http/openapi/responses.ts'
import type { Tag } from '../http/openapi/tags.ts'

type Page = {
  path: string
  decision: number
  /** Unless it is `Service`. */
  tag?: Tag
  summary: string
  description: string
  choices?: Choice[]
  content: Json
  headers?: Json
  otherAnswers?: Record<string, Json>
}

const okContent = (more: Json = {}): Json => ({
  'application/json': {
    schema: {
      type: 'object',
      properties: { status: { type: 'string', const: 'ok', description: 'Always `ok`.' }, ...more },
      required: ['status'],
      additionalProperties: false,
    },
    example: { status: 'ok' },
  },
})

const disk = {
  type: 'object',
  description: 'The disk with the databases of this node; left out where there is none.',
  ...chosen(127),
  properties: {
    state: { type: 'string', enum: [...diskLevels], description: 'How near it is to full.' },
    free_bytes: { type: 'integer', minimum: 0, description: 'The space that is free.' },
    floor_bytes: { type: 'integer', minimum: 0, description: 'Below it, databases become read-only.' },
  },
  required: ['state', 'free_bytes', 'floor_bytes'],
  additionalProperties: false,
}

const textContent = (mediaType: string, example: string): Json => ({
  [mediaType]: { schema: { type: 'string' }, example },
})

const noSniff = header('X-Content-Type-Options', 'Always `nosniff`.', chosen(78))

const scriptHeaders = {
  ...header('Cache-Control', 'Always `public, max-age=31536000, immutable`.', chosen(33)),
  ...header('ETag', 'The version of the script.', chosen(33)),
  ...header('Vary', 'Always `accept-encoding`.', chosen(78)),
  ...noSniff,
}

/** What is served besides the route table. */
const pages: Page[] = [
  {
    path: '/healthz',
    decision: 32,
    summary: 'Liveness',
    description: 'Answers while the process lives.',
    content: okContent(),
  },
  {
    path: '/readyz',
    decision: 32,
    summary: 'Readiness',
    description:
      'Answers 200 while the process can do its work, 503 while the database is out of reach, only reads, or takes more than three seconds to answer, and while the process is about to stop.',
    content: okContent({ disk }),
    otherAnswers: { 503: problemResponse({ code: 'service.unavailable' }) },
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
    content: textContent('text/plain', '# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.25\n'),
    otherAnswers: {
      401: also(problemResponse({ code: 'auth.required', when: 'where the operator has set a token' }), {
        code: 'auth.invalid_token',
      }),
      404: problemResponse({ code: 'not_found', when: 'for callers elsewhere where no token is set' }),
    },
  },
  {
    path: '/openapi.json',
    decision: 78,
    summary: 'This document',
    description: 'OpenAPI 3.1, made from the schemas that validate.',
    content: {
      'application/json': {
        schema: { type: 'object' },
        example: { openapi: '3.1.1', info: { title: 'Keyhook', version: '1' }, paths: {} },
      },
    },
    otherAnswers: { 503: problemResponse({ code: 'service.unavailable', basis: chosen(93) }) },
  },
  {
    path: '/database-ca.pem',
    decision: 130,
    summary: 'Certificate authority of databases',
    description:
      'The certificate (PEM) that clients of databases trust, as `sslrootcert`. It is public: download it over a connection that you trust.',
    content: textContent('application/x-pem-file', '-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n'),
    headers: noSniff,
    otherAnswers: {
      404: problemResponse({
        code: 'not_found',
        when: 'where databases have no TLS, a certificate of a public authority, or no node yet',
      }),
      503: problemResponse({ code: 'service.unavailable', basis: chosen(93) }),
    },
  },
  {
    path: '/docs',
    decision: 78,
    summary: 'API reference',
    description: 'This document as a page, with search, code samples and requests to this server.',
    choices: [choice(78, '`/` redirects here, with 302.')],
    content: textContent('text/html', '<!doctype html>'),
    headers: {
      ...header('Content-Security-Policy', 'Scripts and requests of this origin only.'),
      ...noSniff,
    },
  },
  {
    path: '/docs/scalar.js',
    decision: 78,
    summary: 'Script of the API reference',
    description: 'The script that `/docs` loads.',
    content: textContent('text/javascript', '(function () {})()'),
    headers: {
      ...scriptHeaders,
      ...header('Content-Encoding', '`gzip` for those who accept it.'),
    },
    otherAnswers: {
      304: {
        description: 'The caller has it: `If-None-Match` names its `ETag`.',
        ...chosen(33),
        headers: scriptHeaders,
      },
    },
  },
  {
    path: '/docs/decisions',
    decision: 78,
    summary: 'Decisions',
    description: 'The register of decisions that this document refers to by number, as Markdown.',
    content: textContent('text/plain', '# What the interface leaves open\n'),
    headers: noSniff,
  },
  ...guides.map((guide) => ({
    path: guidePath(guide),
    decision: 78,
    tag: 'Guides' as const,
    summary: `Guide: ${guide.title}`,
    description: guide.about,
    content: textContent('text/plain', `# ${guide.title}\n`),
    headers: noSniff,
  })),
]

export const servicePaths = (): Record<string, Record<string, Json>> =>
  Object.fromEntries(pages.map((page) => [page.path, { get: operationOf(page) }]))

const operationOf = (page: Page): Json => ({
  operationId: operationId(page.summary),
  tags: [page.tag ?? 'Service'],
  summary: page.summary,
  description: page.description,
  security: [],
  ...chosen(page.decision),
  'x-chosen': [...(page.choices ?? []), headToo],
  parameters: [],
  responses: {
    200: {
      description: 'Success.',
      headers: { ...noStore, ...page.headers },
      content: page.content,
    },
    400: problemResponse({ code: 'request.malformed', basis: basisOf('request.malformed') }),
    ...page.otherAnswers,
  },
})

export const otherMethods = (methods: readonly string[]): Json => {
  const allowed = methods.flatMap((method) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()])).join(', ')
  const allow = header('Allow', 'The methods of this path.', undefined, { type: 'string', const: allowed })
  return {
    description: 'Every other method, with or without a token.',
    ...chosen(71),
    responses: { 405: problemResponse({ code: 'request.method_not_allowed' }, allow) },
  }
}

/** Answers that any request can get, before its path is known. */
export const anyRequest: Json = {
  description: 'What any request may be answered, whatever it asks for.',
  ...chosen(8),
  'x-chosen': [choice(80, 'No answer carries CORS headers, and none outside of `/console` sets a cookie.')],
  responses: {
    400: problemResponse({
      code: 'request.malformed',
      when: 'because it is not HTTP/1.1 as RFC 9112 has it',
    }),
    404: problemResponse({
      code: 'not_found',
      when: 'on a path that is none of these, letter for letter, nor below `/console`',
      basis: chosen(77),
    }),
    408: problemResponse({ code: 'request.timeout' }),
    417: problemResponse({ code: 'request.expectation_failed' }),
    431: problemResponse({ code: 'request.header_too_large' }),
  },
}
