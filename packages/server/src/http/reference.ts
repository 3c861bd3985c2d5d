import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import fastify, { type FastifyInstance } from 'fastify'
import { addGuides, guidePath, guides } from './guides.ts'

/** One file in the published package, two in a checkout. */
const registerFiles = [
  ['../decisions.md'],
  ['../../../../docs/decisions/README.md', '../../../../docs/decisions/records.md'],
].map((paths) => paths.map((path) => new URL(path, import.meta.url)))

/** The reference starts with it. Two values are to be replaced, and then it runs. */
export const firstRequest = `# The address of this page, without /docs
KEYHOOK_URL=https://keyhook.example.com
KEYHOOK_TOKEN='your API key'
curl "$KEYHOOK_URL/api/v1/organizations" \\
  -H "Authorization: Bearer $KEYHOOK_TOKEN"`

/** Scalar's settings: nothing that contacts another host. The policy of the page would block it anyway. */
const configuration = {
  url: 'openapi.json',
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
  addGuides(app)
  app.get('/', async (_request, reply) => reply.redirect('docs'))

  const start = startOf(JSON.stringify(configuration))
  const policy = policyOf(createHash('sha256').update(start).digest('base64'))
  const version = scriptVersion()

  app.get('/docs', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', policy)
      .header('x-content-type-options', 'nosniff')
      .send(pageOf(`docs/scalar.js?v=${version}`, start, listOf(JSON.parse(await document())))),
  )

  // On the first request: the package takes 200 ms and 40 MB to load.
  let script: Promise<Buffer> | null = null
  let zipped: Promise<Buffer> | null = null

  app.get('/docs/scalar.js', async (request, reply) => {
    reply
      .header('cache-control', 'public, max-age=31536000, immutable')
      // Weak: the same for the compressed script.
      .header('etag', `W/"${version}"`)
      .header('vary', 'accept-encoding')
      .header('x-content-type-options', 'nosniff')
    const known = request.headers['if-none-match'] ?? ''
    if (known === '*' || known.includes(`"${version}"`)) return reply.code(304).send()
    reply.type('text/javascript; charset=utf-8')
    script ??= scalarScript()
    if (!/\bgzip\b/.test(String(request.headers['accept-encoding']))) return reply.send(await script)
    zipped ??= script.then(promisify(gzip))
    return reply.header('content-encoding', 'gzip').send(await zipped)
  })

  const [files = []] = registerFiles.filter((paths) => paths.every((file) => existsSync(file)))
  const register = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  app.get('/docs/decisions', async (_request, reply) =>
    reply.type('text/plain; charset=utf-8').header('x-content-type-options', 'nosniff').send(register),
  )
}

/**
 * Scalar resolves only absolute paths of servers, and against the origin, without the path that a proxy adds. The list is beside its
 * element, because Scalar would take what is inside for a page of its own that a server rendered.
 */
const startOf = (settings: string): string => `addEventListener('DOMContentLoaded', () => {
  const servers = [{ url: location.origin + location.pathname.replace(/\\/docs$/, '') }]
  Scalar.createApiReference('#app', { ...${settings}, servers })
  document.getElementById('list').remove()
})`

/** Another one for another script, without loading it. */
function scriptVersion(): string {
  const { size, mtimeMs } = statSync(fileURLToPath(import.meta.resolve('@scalar/fastify-api-reference')))
  return createHash('sha256').update(`${size} ${mtimeMs}`).digest('base64url').slice(0, 16)
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

type Operation = { summary: string; tags: string[] }
type Document = { info: { title: string }; tags: { name: string }[]; paths: Record<string, Record<string, Operation>> }

/** The guides, and every operation by its tag: what there is to read until the script, 4 MB of it, has run. */
function listOf({ info, tags, paths }: Document): string {
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { summary, tags }]) =>
      tags?.map((tag) => ({ tag, text: `<code>${method.toUpperCase()} ${escaped(path)}</code> ${escaped(summary)}` })),
    ),
  )
  const byTag = Map.groupBy(
    rows.filter((row) => row !== undefined),
    ({ tag }) => tag,
  )
  const parts = tags.flatMap(({ name }) => {
    const list = byTag.get(name)
    return list
      ? [`<h2>${escaped(name)}</h2>\n<ul>\n${list.map(({ text }) => `<li>${text}</li>`).join('\n')}\n</ul>`]
      : []
  })
  const links = guides.map((guide) => `<a href=".${guidePath(guide)}">${escaped(guide.title)}</a>`).join(' · ')
  return `<h1>${escaped(info.title)}</h1>\n<p>The reference is loading. Guides: ${links}. This is what it describes:</p>\n${parts.join('\n')}`
}

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[char]!)

const pageOf = (scriptUrl: string, start: string, list: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyhook API reference</title>
<link rel="icon" href="data:,">
<style>
#list { max-width: 860px; margin: 32px auto; padding: 0 16px; font: 15px/1.6 system-ui, sans-serif }
#list li { overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { background: #0f0f0f; color: #e7e7e7 } }
</style>
</head>
<body>
<div id="app"></div>
<div id="list">
<noscript>The reference needs JavaScript. The same content as JSON: <a href="openapi.json">openapi.json</a></noscript>
${list}
</div>
<script src="${scriptUrl}" defer></script>
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
