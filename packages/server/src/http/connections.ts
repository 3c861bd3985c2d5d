import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'

/** Pipelined requests that may wait on one connection. Each takes memory. */
const waitingMax = 200

/** The last two responses of a connection: Node finishes responses in order, so these say whether any is unfinished. */
type Connection = { last: ServerResponse | null; beforeLast: ServerResponse | null; waiting: number }

const unused: Readonly<Connection> = { last: null, beforeLast: null, waiting: 0 }

export type Connections = ReturnType<typeof trackConnections>

/** Turns of the event loop in which we wait for one without a new connection. */
const turnsMax = 1_000

/** Knows the responses of every open connection of a server. From the abort of `draining` on, every answer closes its connection. */
export function trackConnections(app: FastifyInstance, draining?: AbortSignal) {
  const connections = new Map<Socket, Connection>()
  let accepted = 0
  app.server.on('connection', (socket: Socket) => {
    accepted += 1
    // Node removes its own listener from the socket of a CONNECT; without one, an error would end the process.
    socket.on('error', () => {})
    connections.set(socket, { last: null, beforeLast: null, waiting: 0 })
    socket.once('close', () => connections.delete(socket))
  })
  app.server.prependListener('request', track)
  draining?.addEventListener('abort', closeAfterAnswers)
  app.addHook('preClose', (done) =>
    whenNoneArrives(() => {
      closeUnused()
      const sweep = setInterval(() => app.server.closeIdleConnections(), 50)
      app.server.once('close', () => clearInterval(sweep))
      done()
    }),
  )

  /**
   * Closing the port resets connections that the kernel has accepted and Node has not, and a proxy may have sent a request on them.
   * So it is closed in a turn of the event loop that found none.
   */
  function whenNoneArrives(next: () => void, turnsLeft = turnsMax): void {
    const before = accepted
    setImmediate(() => (accepted === before || turnsLeft === 0 ? next() : whenNoneArrives(next, turnsLeft - 1)))
  }

  function track(request: IncomingMessage, response: ServerResponse): void {
    const connection = connections.get(request.socket)
    if (connection === undefined) return
    connection.beforeLast = connection.last
    connection.last = response
    if (!draining?.aborted) return
    // Only on the last response: Node closes the connection after the first that has this header.
    if (connection.beforeLast?.headersSent === false) connection.beforeLast.setHeader('Connection', 'keep-alive')
    response.setHeader('Connection', 'close')
  }

  function closeAfterAnswers(): void {
    for (const { last } of connections.values()) {
      if (last?.headersSent === false) last.setHeader('Connection', 'close')
    }
  }

  /**
   * Stopping waits for requests in flight only. Node closes the connections that are idle at that moment; not those that
   * become idle later, nor those without a request yet, such as a browser's spare.
   */
  function closeUnused(): void {
    for (const socket of connections.keys()) if (socket.bytesRead === 0) socket.destroy()
    closeAfterAnswers()
  }

  return {
    /** For a response that Node does not report by a `request` event. */
    track,
    of: (socket: Socket): Readonly<Connection> => connections.get(socket) ?? unused,
    /**
     * Runs `next` when the responses before this one have left: RFC 9112, 9.3.2 requires this of requests that change
     * something. When the client has disconnected, its waiting requests are dropped.
     */
    inTurn({ raw: response }: FastifyReply, next: () => void): void {
      const { socket } = response.req
      const connection = connections.get(socket)
      const before = connection?.beforeLast ?? null
      if (connection === undefined || before === null || before.writableFinished) {
        next()
        return
      }
      connection.waiting += 1
      if (connection.waiting > waitingMax) socket.destroy()
      before.once('close', () => {
        connection.waiting -= 1
        if (!socket.destroyed) next()
      })
    },
  }
}
