import { KeyhookError } from '@keyhook/client'
import { consolePath } from '../address.ts'

type Role = 'owner' | 'admin' | 'member'

export type SessionOrganization = { id: string; name: string; role: Role | 'operator'; permissions: string[] }

export type Session = {
  user: { id: string; email: string | null }
  operator: boolean
  sign_in: 'link' | 'oidc'
  expires_at: string
  organizations: SessionOrganization[]
}

/** Calls under `/console`, the only ones that use the cookie. */
async function call<T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T> {
  const init: RequestInit = { method, headers: { accept: 'application/json' }, credentials: 'same-origin' }
  if (method === 'POST') {
    init.headers = { ...init.headers, 'content-type': 'application/json' }
    init.body = JSON.stringify(body ?? {})
  }
  const response = await fetch(consolePath(path), init).catch((cause) => {
    throw new KeyhookError({ code: 'client.network', message: 'The server cannot be reached.', cause })
  })
  const text = await response.text()
  if (response.ok) return (text === '' ? undefined : JSON.parse(text)) as T
  const problem = readProblem(text)
  throw new KeyhookError({
    code: typeof problem.code === 'string' ? problem.code : 'client.unexpected_response',
    message: typeof problem.detail === 'string' ? problem.detail : `The server answered ${response.status}.`,
    status: response.status,
    problem,
  })
}

function readProblem(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}

export const fetchSession = (): Promise<Session> => call('GET', '/session')

/** Exchanges the secret of a one-time link for the cookie. */
export const signIn = (secret: string): Promise<void> => call('POST', '/sign-in', { secret })

export async function signOut(everywhere: boolean): Promise<void> {
  await call('POST', '/sign-out', { everywhere })
  held = null
}

type Token = { access_token: string; expires_in: number }

/** Renewed this long before its end, so that it does not end while a request travels. */
const renewMs = 30_000

let held: { token: Promise<string>; renewAt: number } | null = null

/** The login token of this page: in memory only, five minutes at most. */
export function currentToken(): Promise<string> {
  if (held !== null && Date.now() < held.renewAt) return held.token
  const asked = call<Token>('POST', '/token')
  const entry = { token: asked.then(({ access_token }) => access_token), renewAt: Number.POSITIVE_INFINITY }
  held = entry
  asked.then(
    ({ expires_in }) => {
      entry.renewAt = Date.now() + Math.max(expires_in * 1_000 - renewMs, 1_000)
    },
    () => {
      if (held === entry) held = null
    },
  )
  return entry.token
}

/** Called when the server refused the token. */
export function forgetToken(): void {
  held = null
}
