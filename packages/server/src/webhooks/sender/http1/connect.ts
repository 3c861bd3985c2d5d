import { isIP } from 'node:net'
import { type ConnectionOptions, type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls'
import type { SendErrorCode } from '../../../domain/send-errors.ts'
import { startDeadline } from './deadline.ts'
import { classifyError, SendError, type Stage } from './send-error.ts'
import type { TlsSessions } from './tls-sessions.ts'

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
/** Opens a connection and writes what it learns into `facts`. */
export type Connect = (target: Target, sessions: TlsSessions, facts: ConnectionFacts, done: OnConnected) => void

const timeoutCodes: Record<Exclude<Stage, 'exchange'>, SendErrorCode> = {
  dns: 'dns_timeout',
  connect: 'connect_timeout',
  tls: 'tls_timeout',
}

/**
 * From a name to a TLS connection. The address is checked before connecting and once more on the connected socket. DNS is asked
 * once for each connection and its answer used at once, so a second look-up cannot give another answer.
 */
export function createConnect(deps: {
  resolve: Resolve
  isAllowed(address: string): boolean
  secureContext: SecureContext
  connectMsMax: number
}): Connect {
  return (target, sessions, facts, onConnected) => {
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
