import { isIP } from 'node:net'
import { type ConnectionOptions, type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls'
import { classifyError, SendError, type SendErrorCode, type Stage } from '../../send-errors.ts'

export type Address = { address: string; family: 4 | 6 }
/** Every address that a name has now. */
export type Resolve = (hostname: string) => { addresses: Promise<Address[]>; cancel(): void }

/** Address and timings of the connection of a request. Times are null on a reused connection. */
export type ConnectionFacts = {
  address: string | null
  dnsUs: number | null
  connectUs: number | null
  tlsUs: number | null
}

type Target = { hostname: string; port: number }
type OnConnected = (error: SendError | null, socket: TLSSocket | null) => void

const timeoutCodes: Record<Exclude<Stage, 'exchange'>, SendErrorCode> = {
  dns: 'dns_timeout',
  connect: 'connect_timeout',
  tls: 'tls_timeout',
}

/**
 * From a name to a TLS connection. The address is checked before connecting and once more on the connected socket. DNS is asked
 * once for each connection and its answer used at once, so a second look-up cannot give another answer. What is learned goes into `facts`.
 */
export function createConnect(deps: {
  resolve: Resolve
  isAllowed(address: string): boolean
  secureContext: SecureContext
  connectMsMax: number
}) {
  return (target: Target, sessions: TlsSessions, facts: ConnectionFacts, onConnected: OnConnected): void => {
    // Set to null once called: the socket's handlers live as long as the socket and would keep the request's body.
    let done: OnConnected | null = onConnected
    let stage: Exclude<Stage, 'exchange'> = 'dns'
    let stageStartMs = performance.now()
    let socket: TLSSocket | null = null
    let cancelLookup = () => {}
    const endStage = (): number => {
      const nowMs = performance.now()
      const us = Math.round((nowMs - stageStartMs) * 1_000)
      stageStartMs = nowMs
      return us
    }
    const finish = (error: SendError | null) => {
      if (done === null) return
      const callback = done
      done = null
      cancelDeadline()
      if (error !== null) {
        cancelLookup()
        socket?.destroy()
      }
      callback(error, error === null ? socket : null)
    }
    const cancelDeadline = startDeadline(
      deps.connectMsMax,
      finish,
      () => new SendError(timeoutCodes[stage], `No connection within ${deps.connectMsMax} ms.`),
    )

    const open = (addresses: Address[]) => {
      if (done === null) return
      const allowed = addresses.filter(({ address }) => deps.isAllowed(address))
      if (allowed.length === 0) return finish(forbidden(target.hostname))
      stage = 'connect'
      const offered = sessions.newest()
      const options: ConnectionOptions & { autoSelectFamily: boolean } = {
        host: target.hostname,
        port: target.port,
        // SNI is for host names only (RFC 6066).
        servername: isIP(target.hostname) === 0 ? target.hostname : '',
        lookup: (_hostname, options, answer) =>
          (options as { all?: boolean }).all
            ? answer(null, allowed)
            : (answer as (e: null, a: string, f: number) => void)(null, allowed[0]!.address, allowed[0]!.family),
        autoSelectFamily: allowed.length > 1,
        secureContext: deps.secureContext,
        session: offered?.ticket,
        ALPNProtocols: ['http/1.1'],
      }
      const opening = tlsConnect(options)
      socket = opening
      opening.setNoDelay(true)
      opening.once('connect', () => {
        facts.connectUs = endStage()
        stage = 'tls'
        const address = opening.remoteAddress
        // A socket whose other end has already closed has no address.
        if (address === undefined) return onClose()
        if (!deps.isAllowed(address)) return finish(forbidden(target.hostname))
        facts.address = address
        // Not sooner: when Node tries the next address it drops listeners for tickets.
        sessions.track(opening, offered)
      })
      opening.once('secureConnect', () => {
        facts.tlsUs = endStage()
        opening.off('error', onError)
        opening.off('close', onClose)
        finish(null)
      })
      const onError = (error: Error) => finish(classifyError(error, stage))
      const onClose = () => finish(new SendError(stage === 'tls' ? 'tls_failed' : 'connect_failed', 'Closed early.'))
      opening.on('error', onError)
      opening.once('close', onClose)
    }

    const family = isIP(target.hostname)
    if (family !== 0) open([{ address: target.hostname, family: family as 4 | 6 }])
    else {
      const lookup = deps.resolve(target.hostname)
      cancelLookup = lookup.cancel
      lookup.addresses.then(
        (addresses) => {
          facts.dnsUs = endStage()
          if (addresses.length === 0) finish(new SendError('dns_failed', `${target.hostname} has no address.`))
          else open(addresses)
        },
        (error) => finish(classifyError(error, 'dns')),
      )
    }
  }
}

/** Does not name the address: the customer reads the record, and the name may be known in our own network only. */
const forbidden = (hostname: string): SendError =>
  new SendError('address_forbidden', `${hostname} leads to no address that deliveries may go to.`)

type TlsSession = { ticket: Buffer; verifiedAtMs: number }

/** The TLS session that new connections to one receiver resume. In memory only, and never shared between webhooks. */
export type TlsSessions = ReturnType<typeof createTlsSessions>

/**
 * A resumed session checks neither dates nor names of the certificate. So the time counts from the handshake that verified it,
 * however often tickets were renewed since.
 */
const verifiedMsMax = 600_000

const ticketsMax = 256

export function createTlsSessions(now: () => number) {
  let newest: TlsSession | null = null
  let discardedAtMs = Number.NEGATIVE_INFINITY

  function keep(session: TlsSession): void {
    if (session.verifiedAtMs <= discardedAtMs) return
    // A late ticket of an old connection must not replace one of a newer verification.
    if (newest !== null && session.verifiedAtMs < newest.verifiedAtMs) return
    newest = session
  }

  return {
    newest(): TlsSession | null {
      if (newest === null) return null
      const ageMs = now() - newest.verifiedAtMs
      // Negative when the clock was set back: the age is unknown.
      return ageMs >= 0 && ageMs < verifiedMsMax ? newest : null
    },
    /** Keeps the tickets that a connection receives. TLS 1.3 sends them at any time until it is closed. */
    track(socket: TLSSocket, offered: TlsSession | null): void {
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
    /** The next connection verifies the certificate; sessions verified before now are not used again. */
    discard(): void {
      newest = null
      discardedAtMs = now()
    },
  }
}

/** A timer that fires this much too late means that this process was paused. */
const pausedMs = 1_000

/**
 * Calls `onLate` when the time is over; the returned function cancels it. After a pause of this process, Node runs timers before it
 * reads what has arrived, so reading comes first. What is still open after a long pause is `interrupted`: we may have held it up.
 */
export function startDeadline(ms: number, onLate: (error: SendError) => void, timeout: () => SendError): () => void {
  const dueMs = performance.now() + ms
  let isCancelled = false
  const timer = setTimeout(() => {
    const wasPaused = performance.now() - dueMs > pausedMs
    // Twice: the first round may read only the last bytes of a handshake, with the response behind it.
    setImmediate(() => setImmediate(() => !isCancelled && onLate(wasPaused ? paused() : timeout())))
  }, ms)
  return () => {
    isCancelled = true
    clearTimeout(timer)
  }
}

const paused = () => new SendError('interrupted', 'The dispatcher was paused while the attempt was in flight.')
