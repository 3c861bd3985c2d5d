import { KeyhookError } from '@keyhook/client'
import { consolePath } from '../address.ts'
import { onSessionChange, tellOtherTabs } from './other-tabs.ts'

/** `operator`: opened by the operator of the installation, to read. */
type Role = 'owner' | 'admin' | 'member' | 'operator'

export type SessionOrganization = { id: string; name: string; role: Role; permissions: string[] }

export type Session = {
  /** Null for the operator of the installation. */
  user: { id: string; email: string | null; name: string | null; verified: boolean } | null
  operator: boolean
  organizations: SessionOrganization[]
  /** Whether to offer somebody who came by a link to add a passkey. */
  offersPasskey: boolean
}

/** Calls under `/console`, the only ones that use the cookie. */
export async function call<T>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<T> {
  const init: RequestInit = { method, headers: { accept: 'application/json' }, credentials: 'same-origin' }
  if (body !== undefined) {
    init.headers = { ...init.headers, 'content-type': 'application/json' }
    init.body = JSON.stringify(body)
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

/** Exchanges the secret of a one-time link for the cookie. */
export async function signIn(link: string, mailed = false): Promise<void> {
  await call('POST', '/session', { link, mailed })
  shownTo = undefined
}

/** Exchanges what an authenticator has signed for the cookie. */
export async function sendPasskey(answer: object): Promise<void> {
  await call('POST', '/passkey-session', { answer })
  shownTo = undefined
}

export async function signOut(everywhere: boolean): Promise<void> {
  await call('DELETE', everywhere ? '/sessions' : '/session')
  forgetToken()
  opened = null
  shownTo = undefined
  tellOtherTabs()
}

/** What an invitation is for, before it is accepted. */
export const fetchInvitation = (invitation: string): Promise<{ organization: string; email: string; role: string }> =>
  call('POST', '/invitation-preview', { invitation })

/** Joins as the user who is signed in, or as a new one, who is signed in by it. */
export async function acceptInvitation(invitation: string): Promise<{ organization_id: string }> {
  const joined = await call<{ organization_id: string }>('POST', '/invitation', { invitation })
  shownTo = undefined
  return joined
}

/** Where to sign in at the OpenID issuer. `returnTo` is shown afterwards, with its query and its fragment. */
export const startSingleSignOn = async (returnTo: string): Promise<string> =>
  (await call<{ url: string }>('POST', '/login', { return_to: returnTo })).url

/** Lets a program on this machine log in. The answer is its address, with a code. */
export const authorizeTerminal = async (request: { challenge: string; state: string; port: number }): Promise<string> =>
  (await call<{ redirect: string }>('POST', '/authorizations', request)).redirect

/** Asks for a link by mail. The answer does not say whether somebody has the address. */
export const mailSignInLink = (email: string): Promise<void> => call('POST', '/sign-in-mail', { email })

/** Asks for a link that confirms the address of whoever is signed in. */
export const mailConfirmation = (): Promise<void> => call('POST', '/confirmation-mail')

export const confirmAddress = (link: string): Promise<void> => call('POST', '/confirmation', { link })

/** `missing` says why this page can have none, and `elsewhere` is a console that can. */
export type PasskeySupport = { missing: string | null; elsewhere: string | null }

/** `mail`: the server sends mail, and with `mail_sign_in` links to sign in. */
type SignInWays = { openid: boolean; passkeys: PasskeySupport | null; mail: boolean; mail_sign_in: boolean }

export const fetchSignInWay = (): Promise<SignInWays> =>
  call('GET', `/config.json?${new URLSearchParams({ origin: location.origin })}`)

type TokenAnswer = Omit<Session, 'offersPasskey'> & { token: string; expires_at: string; offers_passkey: boolean }

/** Renewed this long before its end, so that it does not end while a request travels. */
const renewMs = 30_000

/** The login token of this page: in memory only, five minutes at most. */
let held: { answer: Promise<TokenAnswer>; renewAt: number } | null = null

function askForToken(): Promise<TokenAnswer> {
  const answer = call<TokenAnswer>('POST', '/token')
  const entry = { answer, renewAt: Number.POSITIVE_INFINITY }
  held = entry
  answer.then(
    ({ expires_at }) => {
      entry.renewAt = Math.max(Date.parse(expires_at) - renewMs, Date.now() + 1_000)
    },
    () => {
      if (held === entry) held = null
    },
  )
  return answer
}

export async function currentToken(): Promise<string> {
  const answer = held !== null && Date.now() < held.renewAt ? held.answer : askForToken()
  return (await answer).token
}

/** Whom this page shows; null for the operator, undefined for nobody yet. */
let shownTo: string | null | undefined

const idOf = ({ user }: Pick<Session, 'user'>): string | null => user?.id ?? null

/** Who is signed in, and what each role allows now: it comes with a new token. */
export async function fetchSession(): Promise<Session> {
  const session = await askForToken()
  if (shownTo === undefined) tellOtherTabs()
  // Somebody else signed in with this browser.
  else if (shownTo !== idOf(session)) location.reload()
  shownTo = idOf(session)
  const { user, operator, organizations, offers_passkey: offersPasskey } = session
  return { user, operator, organizations: opened === null ? organizations : [opened.organization], offersPasskey }
}

// A page of somebody who has left is loaded again, so that nothing of it stays.
onSessionChange(() =>
  askForToken()
    .then(idOf, (error) => (error instanceof KeyhookError && error.status === 401 ? undefined : shownTo))
    .then((id) => {
      if (id !== shownTo) location.reload()
    }),
)

/** Called when the server refused the token. */
export function forgetToken(): void {
  held = null
  if (opened !== null) opened.renewAt = 0
}

type OpenedToken = { token: string; expires_at: string }

/** The organization that the operator reads, with its own token; gone with the page. */
let opened: {
  organization: SessionOrganization
  open: () => Promise<OpenedToken>
  token: Promise<string>
  renewAt: number
} | null = null

export async function openOrganization(
  organization: SessionOrganization,
  open: () => Promise<OpenedToken>,
): Promise<void> {
  const { token, expires_at } = await open()
  opened = { organization, open, token: Promise.resolve(token), renewAt: Date.parse(expires_at) - renewMs }
}

/** The token for pages of an organization: that of the session, or the operator's for the one that is open. */
export async function organizationToken(): Promise<string> {
  if (opened === null) return currentToken()
  if (Date.now() >= opened.renewAt) await openOrganization(opened.organization, opened.open)
  return opened.token
}
