import type { TLSSocket } from 'node:tls'

type TlsSession = { ticket: Buffer; verifiedAtMs: number }

/** The TLS session that new connections to one receiver resume. In memory only, and never shared between webhooks. */
export type TlsSessions = {
  newest(): TlsSession | null
  /** Keeps the tickets that a connection receives. TLS 1.3 sends them at any time until it is closed. */
  track(socket: TLSSocket, offered: TlsSession | null): void
  /** The next connection verifies the certificate; sessions verified before now are not used again. */
  discard(): void
}

/**
 * A resumed session checks neither dates nor names of the certificate. So the time counts from the handshake that verified it,
 * however often tickets were renewed since.
 */
const verifiedMsMax = 600_000

const ticketsMax = 256

export function createTlsSessions(now: () => number): TlsSessions {
  let newest: TlsSession | null = null
  let discardedAtMs = Number.NEGATIVE_INFINITY

  function keep(session: TlsSession): void {
    if (session.verifiedAtMs <= discardedAtMs) return
    // A late ticket of an old connection must not replace one of a newer verification.
    if (newest !== null && session.verifiedAtMs < newest.verifiedAtMs) return
    newest = session
  }

  return {
    newest() {
      if (newest === null) return null
      const ageMs = now() - newest.verifiedAtMs
      // Negative when the clock was set back: the age is unknown.
      return ageMs >= 0 && ageMs < verifiedMsMax ? newest : null
    },
    track(socket, offered) {
      let verifiedAtMs: number | null = null
      socket.once('secureConnect', () => {
        // Node emits it for an unverified connection only where the operator switched verification off.
        if (!socket.authorized) return
        verifiedAtMs = socket.isSessionReused() ? (offered?.verifiedAtMs ?? null) : now()
      })
      let tickets = 0
      socket.on('session', (ticket) => {
        // A receiver that sends tickets without end would keep us busy.
        if (++tickets > ticketsMax) return socket.destroy()
        // A copy: the ticket is a view of a larger buffer, which would be kept with it.
        if (verifiedAtMs !== null) keep({ ticket: Buffer.from(new Uint8Array(ticket).buffer), verifiedAtMs })
      })
    },
    discard() {
      newest = null
      discardedAtMs = now()
    },
  }
}
