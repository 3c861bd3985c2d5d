import type { TLSSocket } from 'node:tls'

type TlsSession = { ticket: Buffer; verifiedAtMs: number }

/** The TLS session that new connections to one receiver resume. In memory only, and never another webhook's. */
export type TlsSessions = {
  offer(): TlsSession | null
  /** Keeps the tickets that a connection brings, from its beginning to its end: TLS 1.3 sends them when it likes. */
  follow(socket: TLSSocket, offered: TlsSession | null): void
  /** The next connection verifies the certificate, and what was verified before this moment is not used again. */
  drop(): void
}

/**
 * Nobody looks at a certificate when a session is resumed, neither at its dates nor at its names. So the time counts from
 * the handshake that verified it, however often tickets were renewed since.
 */
const verifiedMsMax = 600_000

const ticketsMax = 256

export function createTlsSessions(now: () => number): TlsSessions {
  let newest: TlsSession | null = null
  let droppedAtMs = Number.NEGATIVE_INFINITY

  function keep(session: TlsSession): void {
    if (session.verifiedAtMs <= droppedAtMs) return
    // An old connection may still be sent tickets: they must not take the place of a younger verification's.
    if (newest !== null && session.verifiedAtMs < newest.verifiedAtMs) return
    newest = session
  }

  return {
    offer() {
      if (newest === null) return null
      const ageMs = now() - newest.verifiedAtMs
      // Less than nothing: the clock was set back, and nobody knows the age.
      return ageMs >= 0 && ageMs < verifiedMsMax ? newest : null
    },
    follow(socket, offered) {
      let verifiedAtMs: number | null = null
      socket.once('secureConnect', () => {
        // Node lets an unverified connection come this far only where the operator switched verification off.
        if (!socket.authorized) return
        verifiedAtMs = socket.isSessionReused() ? (offered?.verifiedAtMs ?? null) : now()
      })
      let tickets = 0
      socket.on('session', (ticket) => {
        // Nobody needs so many; one that goes on sending them keeps us busy for as long as it likes.
        if (++tickets > ticketsMax) return socket.destroy()
        // A copy of its own: a ticket is a small window on a large buffer, which would be kept with it.
        if (verifiedAtMs !== null) keep({ ticket: Buffer.from(new Uint8Array(ticket).buffer), verifiedAtMs })
      })
    },
    drop() {
      newest = null
      droppedAtMs = now()
    },
  }
}
