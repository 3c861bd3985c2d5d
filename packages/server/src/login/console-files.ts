import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { notFound } from '../lib/faults.ts'

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
}
const isText = (type: string): boolean => /^text\/|json|svg/.test(type)

/** Scripts, styles and requests of this origin only, and nothing inline. */
const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const headers = {
  'content-security-policy': consolePolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

type File = { type: string; content: Buffer; etag: string; zipped: Promise<Buffer> | null }
type Files = { page: string; byPath: ReadonlyMap<string, File>; changedMs: number }

/** Serves the built console. Every path that is no file is a page of it. */
export function addConsoleFiles(app: FastifyInstance, directory: string | null): void {
  let loading: Promise<Files> | null = null

  /** Read once, and again when it was built again. A path of a request is a key here, and never one of the file system. */
  async function files(): Promise<Files> {
    const changedMs =
      directory === null
        ? null
        : await stat(join(directory, 'index.html')).then(
            ({ mtimeMs }) => mtimeMs,
            () => null,
          )
    if (directory === null || changedMs === null) throw notFound('the console is not built')
    if (loading === null || (await loading).changedMs !== changedMs) loading = readFiles(directory, changedMs)
    return loading
  }

  app.get('/console', async (_request, reply) => reply.redirect('console/'))
  app.get<{ Params: { '*': string } }>('/console/*', async (request, reply) => {
    const path = request.params['*']
    const { page, byPath } = await files()
    const file = byPath.get(path)
    if (file !== undefined) return sendFile(request, reply, file, path.startsWith('assets/'))
    if (path.startsWith('assets/')) throw notFound('no such file of the console')
    return reply.headers(headers).type(types['.html']!).send(pageAt(page, request.url))
  })
}

/**
 * The page links to its files with `./`. From a deeper path that is one folder up for each folder, so that it works under any
 * prefix that a proxy adds.
 */
function pageAt(page: string, url: string): string {
  const path = url.split('?', 1)[0]!.replace(/^.*?\/console\//, '')
  return page.replaceAll('="./', `="${'../'.repeat(path.split('/').length - 1) || './'}`)
}

async function sendFile(request: FastifyRequest, reply: FastifyReply, file: File, isHashed: boolean): Promise<void> {
  reply
    .headers(headers)
    .header('etag', file.etag)
    .header('vary', 'accept-encoding')
    // Names of assets contain a hash of their content.
    .header('cache-control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache')
  if (request.headers['if-none-match']?.includes(file.etag)) return reply.code(304).send()
  reply.type(file.type)
  if (!isText(file.type) || !/\bgzip\b/.test(String(request.headers['accept-encoding'])))
    return reply.send(file.content)
  file.zipped ??= promisify(gzip)(file.content)
  return reply.header('content-encoding', 'gzip').send(await file.zipped)
}

async function readFiles(directory: string, changedMs: number): Promise<Files> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }): Promise<[string, File]> => {
        const content = await readFile(join(parentPath, name))
        const type = types[extname(name)] ?? 'application/octet-stream'
        const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 16)}"`
        const path = join(parentPath, name).slice(join(directory, '/').length)
        return [path, { type, content, etag, zipped: null }]
      }),
  )
  const byPath = new Map(files)
  const page = byPath.get('index.html')!.content.toString()
  byPath.delete('index.html')
  return { page, byPath, changedMs }
}
