import { spawn } from 'node:child_process'
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { UsageError } from '../output.ts'

/** Long enough to sign in to the console first. */
const waitMinutes = 10

const random = (bytes: number): string => randomBytes(bytes).toString('base64url')

/**
 * A login token by way of the console: the person confirms there, and the browser brings a code to this program, which listens on
 * 127.0.0.1 only (RFC 8252). The code is worth nothing without the verifier, which never leaves this process before the exchange.
 */
export async function logInWithBrowser(url: string): Promise<string> {
  const root = url.replace(/\/+$/, '')
  await checkConsole(root)
  const [verifier, state] = [random(32), random(16)]
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const { port } = server.address() as AddressInfo
    const query = new URLSearchParams({ port: String(port), challenge, state, machine: hostname() })
    const address = `${root}/console/authorize?${query}`
    process.stderr.write(`Open this address in a browser on this machine, and confirm the login:\n  ${address}\n`)
    openBrowser(address)
    return await new Promise<string>((resolve, reject) => {
      const late = () =>
        reject(new UsageError(`Nobody confirmed the login in a browser within ${waitMinutes} minutes.`))
      setTimeout(late, waitMinutes * 60_000).unref()
      server.on('request', (request, response) => {
        const reply = replyOf(request, { port, state })
        if (reply?.error === 'access_denied') {
          answer(response, 200, 'You are not logged in. You can close this page.')
          return reject(new UsageError('You cancelled the login in the browser. Nothing was changed.'))
        }
        if (!reply?.code)
          return answer(response, 400, 'This request is not the confirmation that "keyhook login" waits for.')
        exchange(root, reply.code, verifier).then(
          (token) => {
            answer(response, 200, 'You are logged in. You can close this page and go back to the terminal.')
            resolve(token)
          },
          (error: unknown) => {
            answer(response, 502, 'The login failed. The terminal shows the reason.')
            reject(error)
          },
        )
      })
    })
  } finally {
    server.close()
    server.closeIdleConnections()
  }
}

async function checkConsole(root: string): Promise<void> {
  const response = await fetch(`${root}/console/config.json`, { signal: AbortSignal.timeout(30_000) }).catch(
    (cause) => {
      throw new UsageError(`The server at ${root} cannot be reached (${(cause as Error).message}).`)
    },
  )
  if (!response.ok)
    throw new UsageError(`The server at ${root} has no console. Log in with an API key or a login token.`)
}

/** Null for any other request: another page of this browser may try one, also by a name of its own for 127.0.0.1. */
function replyOf(
  request: IncomingMessage,
  { port, state }: { port: number; state: string },
): { code: string | null; error: string | null } | null {
  if (request.method !== 'GET' || request.headers.host !== `127.0.0.1:${port}`) return null
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://127.0.0.1')
  const given = Buffer.from(searchParams.get('state') ?? '')
  const isOurs = given.length === state.length && timingSafeEqual(given, Buffer.from(state))
  return pathname === '/' && isOurs ? { code: searchParams.get('code'), error: searchParams.get('error') } : null
}

function answer(response: ServerResponse, status: number, text: string): void {
  response
    .writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      connection: 'close',
    })
    .end(`${text}\n`)
}

async function exchange(root: string, code: string, verifier: string): Promise<string> {
  const response = await fetch(`${root}/console/authorizations/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code, verifier }),
    signal: AbortSignal.timeout(30_000),
  })
  const body = (await response.json()) as { token?: string; detail?: string }
  if (body.token === undefined)
    throw new UsageError(body.detail ?? `The server refused the login with the status ${response.status}.`)
  return body.token
}

/** The address is printed too, so a machine without a browser is no failure. */
function openBrowser(address: string): void {
  const commands: Partial<Record<NodeJS.Platform, string[]>> = {
    darwin: ['open'],
    win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  }
  const [program, ...args] = commands[process.platform] ?? ['xdg-open']
  if (!process.stderr.isTTY) return
  spawn(program!, [...args, address], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}
