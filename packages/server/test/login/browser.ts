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

/** What a browser keeps for one site: cookies, which it sends to `/console` alone, and the Origin of its pages. */
export function createBrowser(url: string, origin = url) {
  const cookies = new Map<string, string>()
  return {
    origin,
    cookies,
    /** That of the session. */
    get cookie(): string | null {
      const value = cookies.get('keyhook_console')
      return value === undefined ? null : `keyhook_console=${value}`
    },
    async send<T = unknown>(
      method: string,
      path: string,
      options: { body?: unknown; headers?: Record<string, string> } = {},
    ): Promise<Reply<T>> {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const reply = await call<T>(`${url}${path}`, {
        method,
        body: options.body,
        headers: { origin, ...(cookie !== '' && { cookie }), ...options.headers },
      })
      for (const line of reply.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
        if (value === '') cookies.delete(name!)
        else cookies.set(name!, value!)
      }
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
