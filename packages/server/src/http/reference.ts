import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import fastify, { type FastifyInstance } from 'fastify'

/** In the published package, and in a checkout. */
const registerFiles = ['../decisions.md', '../../../../docs/decisions/README.md'].map(
  (path) => new URL(path, import.meta.url),
)

/** Scalar's settings: nothing that contacts another host. The policy of the page would block it anyway. */
const configuration = {
  url: '/openapi.json',
  theme: 'default',
  withDefaultFonts: false,
  telemetry: false,
  persistAuth: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
}

/** Serves the OpenAPI document, and the API reference that shows it. */
export function addReference(app: FastifyInstance, document: () => Promise<string>): void {
  app.get('/openapi.json', async (_request, reply) => {
    const json = await document()
    return reply.type('application/json; charset=utf-8').send(json)
  })
  app.get('/', async (_request, reply) => reply.redirect('/docs'))

  let loading: Promise<Reference> | null = null
  // On the first request: the package takes 200 ms and 40 MB to load.
  const reference = () => {
    loading ??= loadReference()
    return loading
  }

  app.get('/docs', async (_request, reply) => {
    const { page, policy } = await reference()
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', policy)
      .header('x-content-type-options', 'nosniff')
      .send(page)
  })

  app.get('/docs/scalar.js', async (request, reply) => {
    const { script, etag } = await reference()
    reply
      .header('cache-control', 'public, max-age=31536000, immutable')
      .header('etag', etag)
      .header('x-content-type-options', 'nosniff')
    const known = request.headers['if-none-match'] ?? ''
    if (known === '*' || known.includes(etag)) return reply.code(304).send()
    return reply.type('text/javascript; charset=utf-8').send(script)
  })

  const register = readFileSync(registerFiles.find((file) => existsSync(file))!, 'utf8')
  app.get('/docs/decisions', async (_request, reply) =>
    reply.type('text/plain; charset=utf-8').header('x-content-type-options', 'nosniff').send(register),
  )
}

type Reference = { page: string; policy: string; script: Buffer; etag: string }

async function loadReference(): Promise<Reference> {
  const script = await scalarScript()
  const hash = createHash('sha256').update(script).digest('base64url').slice(0, 16)
  const start = `Scalar.createApiReference('#app', ${JSON.stringify(configuration)})`
  return {
    script,
    etag: `"${hash}"`,
    page: pageOf(`/docs/scalar.js?v=${hash}`, start),
    policy: policyOf(createHash('sha256').update(start).digest('base64')),
  }
}

/**
 * The browser bundle of Scalar. Its own package brings 300 others (240 MB); the plugin for Fastify has the same bundle and
 * brings 15. The plugin runs in an instance of its own, because its routes redirect and parse URLs in ways that ours do not.
 */
async function scalarScript(): Promise<Buffer> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = fastify()
  await app.register(scalar, { routePrefix: '/reference', configuration: { url: configuration.url } })
  const { statusCode, rawPayload } = await app.inject('/reference/js/scalar.js')
  await app.close()
  if (statusCode !== 200) throw new Error(`the Scalar plugin answered ${statusCode} for its script`)
  return rawPayload
}

const pageOf = (scriptUrl: string, start: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyhook API reference</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The same content as JSON: <a href="/openapi.json">openapi.json</a></noscript>
<script src="${scriptUrl}"></script>
<script>${start}</script>
</body>
</html>
`

/** Scalar sets inline style attributes, which only `unsafe-inline` allows. Scripts and requests are of this origin. */
const policyOf = (startHash: string): string =>
  [
    "default-src 'none'",
    `script-src 'self' 'sha256-${startHash}'`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
