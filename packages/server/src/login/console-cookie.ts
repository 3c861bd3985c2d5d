import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Fault } from '../lib/faults.ts'

const name = 'keyhook_console'

/** As long as a session can last; the server decides when it ends. */
const maxAgeSeconds = 14 * 86_400

/**
 * The secret of the session; null without one. Also with two: another host of the same site can plant a cookie, and nobody can tell
 * which one is ours.
 */
export const sessionSecret = ({ headers }: FastifyRequest): string | null => {
  const given = (headers.cookie ?? '').split(';').filter((one) => one.trim().startsWith(`${name}=`))
  return given.length === 1 ? parseCookie(given[0]!)[name] || null : null
}

/**
 * Without a Path the browser uses the folder of the request, which is `/console`, also behind a proxy that adds a prefix. No other
 * path gets the cookie, and no script can read it.
 */
export const setSession = (reply: FastifyReply, secret: string, { secure }: { secure: boolean }): void => {
  const cookie = { name, value: secret, httpOnly: true, sameSite: 'strict', secure, maxAge: maxAgeSeconds } as const
  reply.header('set-cookie', stringifySetCookie(cookie))
}

export const clearSession = (reply: FastifyReply, { secure }: { secure: boolean }): void => {
  const cookie = { name, value: '', httpOnly: true, sameSite: 'strict', secure, maxAge: 0 } as const
  reply.header('set-cookie', stringifySetCookie(cookie))
}

/**
 * Throws unless the request was made by a page of ours. Browsers send Origin with every POST and DELETE, and no page can change it.
 * Returns the origin, which says whether the browser used https: behind a proxy the connection does not.
 */
export function checkOrigin(request: FastifyRequest, publicUrl: string | null): string {
  const { origin, 'sec-fetch-site': site } = request.headers
  const own = [`${request.protocol}://${request.host}`, publicUrl === null ? null : new URL(publicUrl).origin]
  const isOwn = origin !== undefined && own.includes(origin)
  if (!isOwn || (site !== undefined && site !== 'same-origin')) {
    throw new Fault('console.origin_refused', {
      public:
        'Only pages of the console may ask for this. If this is the console, the operator has to set KEYHOOK_PUBLIC_URL to its address.',
    })
  }
  return origin
}

// RFC 9110, 15.5.2: a 401 names a scheme. There is no registered one for cookies.
const headers = { 'www-authenticate': 'Cookie realm="keyhook console"' }

export const sessionRequired = (text = 'Nobody is signed in here, or the session has ended.'): Fault =>
  new Fault('console.session_required', { public: text, headers })

export const linkInvalid = (text: string): Fault => new Fault('console.link_invalid', { public: text })
