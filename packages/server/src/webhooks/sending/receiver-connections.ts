import type { TLSSocket } from 'node:tls'
import { takeOut } from '../../kernel/lists.ts'
import { Attempt, type SendLimits } from './attempt.ts'
import { Connection } from './connection.ts'
import type { Connect, ConnectionFacts } from './connector.ts'
import type { Exchange } from './exchange.ts'
import type { IdleConnections } from './idle-connections.ts'
import { createRequest, type FlatHeaders } from './request.ts'
import { SendError } from './send-error.ts'
import { createTlsSessions } from './tls-sessions.ts'

/**
 * Until when a request may leave without asking (webhooks/dispatching/leaving.ts). To name, connect and greet a receiver may take
 * seconds, and its webhook may be gone by then.
 */
export type Leave = { overMs: number; mayGo(): Promise<boolean> }

/** One webhook's connections. A connection carries one request at a time and is kept while the receiver keeps it. */
export type Receiver = {
  send(headers: FlatHeaders, body: Buffer, done: (exchange: Exchange) => void, leave?: Leave): void
  /** Ends every attempt that is on its way; each is reported as interrupted. */
  interrupt(): void
  /** Closes connections that carry nothing; those that do are kept as always. */
  closeIdle(): void
  /** And keeps no connection any more. */
  close(): void
}

export function createReceiverConnections(
  url: URL,
  deps: { connect: Connect; limits: SendLimits; idleConnections: IdleConnections; now(): number },
): Receiver {
  const { limits, idleConnections } = deps
  const target = { hostname: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 443) }
  const requestOf = createRequest(url)
  const sessions = createTlsSessions(deps.now)
  const idle: Connection[] = []
  const underway: Attempt[] = []
  const connectionLimits = {
    headerBytesMax: limits.responseHeaderBytesMax,
    /** A body in chunks takes more than its bytes, and there are headers. */
    bytesMax: 2 * limits.responseBytesMax + 4 * limits.responseHeaderBytesMax,
  }
  let closed = false

  function carryOnNew(attempt: Attempt, request: Buffer, leave: Leave | undefined): void {
    const facts = noFacts(null)
    attempt.facts = facts
    deps.connect(target, sessions, facts, (error, socket) => {
      if (error !== null) attempt.onError(error)
      else
        whenItMayLeave(leave, socket!, (refused) => {
          if (refused !== null) return attempt.onError(refused)
          if (attempt.isOver) return void socket!.destroy()
          attempt.connection = new Connection(socket!, facts.address, connectionLimits, forget)
          attempt.connection.carry(request, attempt)
        })
    })
  }

  /** Mostly at once. Should the database be away, nobody knows: then it is begun again when it is back. */
  function whenItMayLeave(
    leave: Leave | undefined,
    socket: TLSSocket,
    done: (refused: SendError | null) => void,
  ): void {
    if (leave === undefined || deps.now() <= leave.overMs) {
      done(null)
      return
    }
    // Nobody else hears it until it is a connection's.
    const ignore = () => {}
    socket.on('error', ignore)
    void leave
      .mayGo()
      .catch(() => false)
      .then((mayGo) => {
        if (!mayGo || socket.destroyed) {
          socket.destroy()
          done(mayGo ? hungUp() : tooLate())
        } else {
          socket.off('error', ignore)
          done(null)
        }
      })
  }

  /**
   * Whatever has come on a connection since its last answer is read first. A receiver that has closed it, or has said something
   * that nobody asked, gets the request on another one.
   */
  function carryOnKept(connection: Connection, attempt: Attempt, request: Buffer, leave: Leave | undefined): void {
    attempt.connection = connection
    setImmediate(() => {
      if (attempt.isOver) return
      if (connection.isOpen && connection.isAllSent) return connection.carry(request, attempt)
      connection.close()
      attempt.connection = null
      carryOnNew(attempt, request, leave)
    })
  }

  function takeIdle(): Connection | null {
    for (;;) {
      const connection = idle.pop()
      if (connection === undefined) return null
      idleConnections.remove(connection)
      if (connection.isOpen) return connection
      connection.close()
    }
  }

  function forget(connection: Connection): void {
    takeOut(idle, connection)
    idleConnections.remove(connection)
  }

  function keep(connection: Connection): void {
    idle.push(connection)
    idleConnections.add(connection)
  }

  function closeIdle(): void {
    for (const connection of idle.splice(0)) connection.close()
  }

  return {
    send(headers, body, done, leave) {
      const connection = takeIdle()
      const attempt = new Attempt(noFacts(connection?.address ?? null), limits, (exchange) => {
        takeOut(underway, attempt)
        const { connection } = attempt
        attempt.connection = null
        // A receiver may choke on a session in its handshake or right after it; one bad ticket must not fail every attempt.
        const connected = exchange.connectUs !== null
        if (connected && exchange.status === 'failed' && exchange.response === null) sessions.drop()
        if (connection?.isOpen) closed ? connection.close() : keep(connection)
        done(exchange)
      })
      underway.push(attempt)
      const request = requestOf(headers, body)
      if (connection === null) carryOnNew(attempt, request, leave)
      else carryOnKept(connection, attempt, request, leave)
    },
    interrupt() {
      for (const attempt of [...underway]) attempt.onError(stopping())
    },
    closeIdle,
    close() {
      closed = true
      closeIdle()
    },
  }
}

const noFacts = (address: string | null): ConnectionFacts => ({ address, dnsUs: null, connectUs: null, tlsUs: null })

const stopping = () => new SendError('interrupted', 'The dispatcher is stopping.')
const tooLate = () => new SendError('interrupted', 'Connecting took so long that the attempt may not leave any more.')
const hungUp = () => new SendError('connection_reset', 'The receiver hung up before it was sent anything.')
