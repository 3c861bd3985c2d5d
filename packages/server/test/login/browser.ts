import type { UserId } from '../../src/lib/ids.ts'
import { createSignInLink } from '../../src/login/console-sessions.ts'
import { call, type Reply } from '../kit/client.ts'
import type { TestApi } from '../kit/installation.ts'

export type TokenAnswer = {
  token: string
  expires_at: string
  operator: boolean
  user: { id: string; email: string; name: string | null } | null
  organizations: { id: string; name: string; role: string; permissions: string[] }[]
}

/** What a browser keeps for one site: the cookie, which it sends to `/console` alone, and the Origin of its pages. */
export function createBrowser(url: string, origin = url) {
  let cookie: string | null = null
  return {
    get cookie() {
      return cookie
    },
    async send<T = unknown>(
      method: string,
      path: string,
      options: { body?: unknown; headers?: Record<string, string> } = {},
    ): Promise<Reply<T>> {
      const reply = await call<T>(`${url}${path}`, {
        method,
        body: options.body,
        headers: { origin, ...(cookie !== null && { cookie }), ...options.headers },
      })
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(reply.headers.get('set-cookie') ?? '') ?? []
      if (name !== undefined) cookie = value === '' ? null : `${name}=${value}`
      return reply
    },
  }
}

export type Browser = ReturnType<typeof createBrowser>

/** The secret of a new link. */
export const linkFor = async ({ db }: TestApi, userId: UserId | null): Promise<string> =>
  (await createSignInLink(db, userId)).split('#')[1]!

export async function signIn(api: TestApi, userId: UserId | null, browser = createBrowser(api.url)): Promise<Browser> {
  const reply = await browser.send('POST', '/console/session', { body: { link: await linkFor(api, userId) } })
  if (reply.status !== 204) throw new Error(`not signed in: ${reply.text}`)
  return browser
}

export const tokenOf = (browser: Browser) => browser.send<TokenAnswer>('POST', '/console/token')
