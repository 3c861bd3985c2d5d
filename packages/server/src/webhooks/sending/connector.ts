import { isIP } from 'node:net'
import { type ConnectionOptions, type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls'
import type { AddressGuard } from './address-guard.ts'
import { deadline } from './deadline.ts'
import type { Address, Resolve } from './resolve.ts'
import { SendError, type SendErrorCode, type Stage, sendErrorOf } from './send-error.ts'
import type { TlsSessions } from './tls-sessions.ts'

/** What is known about the connection that an attempt used. Times are null on a connection that was there already. */
export type ConnectionFacts = {
  address: string | null
  dnsUs: number | null
  connectUs: number | null
  tlsUs: number | null
}

type Target = { hostname: string; port: number }

type Connected = (error: SendError | null, socket: TLSSocket | null) => void
/** Opens a connection and writes what it learns into `facts`. */
export type Connect = (target: Target, sessions: TlsSessions, facts: ConnectionFacts, done: Connected) => void

const late: Record<Exclude<Stage, 'exchange'>, SendErrorCode> = {
  dns: 'dns_timeout',
  connect: 'connect_timeout',
  tls: 'tls_timeout',
}

/**
 * Name to TLS connection, with the address guard on every address that is tried and once more on the socket that came
 * about. DNS is asked for each connection and its answer is used at once: there is no second look-up to be tricked by.
 */
export function createConnect(deps: {
  resolve: Resolve
  allows: AddressGuard
  secureContext: SecureContext
  connectMsMax: number
}): Connect {
  return (target, sessions, facts, whenConnected) => {
    // The socket keeps what is in here for as long as it lives: not whoever waited for it, and what that one had to send.
    let done: Connected | null = whenConnected
    let stage: Exclude<Stage, 'exchange'> = 'dns'
    let since = performance.now()
    let socket: TLSSocket | null = null
    let cancelLookup = () => {}
    const lap = (): number => {
      const now = performance.now()
      const us = Math.round((now - since) * 1_000)
      since = now
      return us
    }
    const finish = (error: SendError | null) => {
      if (done === null) return
      const tell = done
      done = null
      callOff()
      if (error !== null) {
        cancelLookup()
        socket?.destroy()
      }
      tell(error, error === null ? socket : null)
    }
    const callOff = deadline(
      deps.connectMsMax,
      finish,
      () => new SendError(late[stage], `No connection within ${deps.connectMsMax} ms.`),
    )

    const open = (addresses: Address[]) => {
      if (done === null) return
      const permitted = addresses.filter(({ address }) => deps.allows(address))
      if (permitted.length === 0) return finish(forbidden(target.hostname))
      stage = 'connect'
      const offered = sessions.offer()
      const options: ConnectionOptions & { autoSelectFamily: boolean } = {
        host: target.hostname,
        port: target.port,
        // SNI names hosts; RFC 6066 leaves addresses out.
        servername: isIP(target.hostname) === 0 ? target.hostname : '',
        lookup: (_hostname, options, answer) =>
          (options as { all?: boolean }).all
            ? answer(null, permitted)
            : (answer as (e: null, a: string, f: number) => void)(null, permitted[0]!.address, permitted[0]!.family),
        autoSelectFamily: permitted.length > 1,
        secureContext: deps.secureContext,
        session: offered?.ticket,
        ALPNProtocols: ['http/1.1'],
      }
      const opening = tlsConnect(options)
      socket = opening
      opening.setNoDelay(true)
      opening.once('connect', () => {
        facts.connectUs = lap()
        stage = 'tls'
        const address = opening.remoteAddress
        // Whoever has hung up already has no address any more, and gets nothing.
        if (address === undefined) return closed()
        if (!deps.allows(address)) return finish(forbidden(target.hostname))
        facts.address = address
        // Not before: on its way from a dead address to the next Node forgets that somebody waits for tickets.
        sessions.follow(opening, offered)
      })
      opening.once('secureConnect', () => {
        facts.tlsUs = lap()
        opening.off('error', failed)
        opening.off('close', closed)
        finish(null)
      })
      const failed = (error: Error) => finish(sendErrorOf(error, stage))
      const closed = () => finish(new SendError(stage === 'tls' ? 'tls_failed' : 'connect_failed', 'Closed early.'))
      opening.on('error', failed)
      opening.once('close', closed)
    }

    const family = isIP(target.hostname)
    if (family !== 0) open([{ address: target.hostname, family: family as 4 | 6 }])
    else {
      const lookup = deps.resolve(target.hostname)
      cancelLookup = lookup.cancel
      lookup.addresses.then(
        (addresses) => {
          facts.dnsUs = lap()
          if (addresses.length === 0) finish(new SendError('dns_failed', `${target.hostname} has no address.`))
          else open(addresses)
        },
        (error) => finish(sendErrorOf(error, 'dns')),
      )
    }
  }
}

/** Not which: the record is the customer's to read, and the name may be known to our own network only. */
const forbidden = (hostname: string): SendError =>
  new SendError('address_forbidden', `${hostname} leads to no address that deliveries may go to.`)
