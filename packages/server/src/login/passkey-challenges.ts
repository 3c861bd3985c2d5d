import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Transaction } from '../db/database.ts'
import type { SessionId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { secretHash } from '../lib/secrets.ts'
import { recordAnswer } from './passkey-sql.ts'

const name = 'keyhook_passkey'
const context = 'passkey challenge'

/** Time for a person to find a security key. */
export const challengeSeconds = 300

/** `sessionId`: the session that adds a passkey; null to sign in. */
type Challenge = { challenge: string; sessionId: SessionId | null; expiresMs: number }

/**
 * What an authenticator signs. The browser that asked keeps it in a sealed cookie, so that any node can check the answer, and asking
 * writes nothing. An answer that was accepted is a row, and no other is accepted for its challenge.
 */
export function createChallenges(masterKeys: Pick<MasterKeys, 'seal' | 'open'>) {
  return {
    keep(reply: FastifyReply, about: { challenge: string; sessionId: SessionId | null; secure: boolean }): void {
      const { secure, ...rest } = about
      const content: Challenge = { ...rest, expiresMs: Date.now() + challengeSeconds * 1_000 }
      const { keyId, box } = masterKeys.seal(JSON.stringify(content), context)
      const value = `${keyId}.${box.toString('base64url')}`
      const attributes = { httpOnly: true, sameSite: 'strict', secure, maxAge: challengeSeconds } as const
      reply.header('set-cookie', stringifySetCookie({ name, value, ...attributes }))
    },

    /** Null without one for this purpose, or if it has expired. */
    of(request: FastifyRequest, sessionId: SessionId | null): Challenge | null {
      const [keyId, box] = parseCookie(request.headers.cookie ?? '')[name]?.split('.') ?? []
      if (!keyId || !box) return null
      const kept = open({ keyId, box: Buffer.from(box, 'base64url') })
      return kept !== null && kept.sessionId === sessionId && kept.expiresMs > Date.now() ? kept : null
    },

    /** Whether this is its first answer. */
    spend: (tx: Transaction, { challenge, expiresMs }: Challenge): Promise<boolean> =>
      // A minute longer, for clocks that differ.
      recordAnswer(tx, secretHash(challenge), new Date(expiresMs + 60_000)),
  }

  function open(sealed: { keyId: string; box: Buffer }): Challenge | null {
    try {
      return JSON.parse(masterKeys.open(sealed, context))
    } catch {
      // Of another installation, or changed.
      return null
    }
  }
}
