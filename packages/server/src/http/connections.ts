import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'

/** Requests that a client may send ahead on one connection. More is nobody's pipeline, and each of them takes memory. */
const waitingMax = 200

type Connection = { lastAnswer: ServerResponse | null; waiting: number }

/** What the connections of a server are busy with. */
export function watchConnections(app: FastifyInstance) {
  const connections = new Map<Socket, Connection>()
  app.server.on('connection', (socket: Socket) => {
    // Node takes its own listener off the socket of a CONNECT: a client that is gone by then would end the process.
    socket.on('error', () => {})
    connections.set(socket, { lastAnswer: null, waiting: 0 })
    socket.once('close', () => connections.delete(socket))
  })
  app.addHook('preClose', (done) => {
    hangUp()
    const sweep = setInterval(() => app.server.closeIdleConnections(), 50)
    app.server.once('close', () => clearInterval(sweep))
    done()
  })

  /**
   * Stopping waits for what is in flight and for nothing else. Node hangs up on connections that are idle at that moment;
   * not on those that become idle a moment later, nor on those that have not said a word yet, such as a browser's spare.
   */
  function hangUp(): void {
    for (const [socket, { lastAnswer }] of connections) {
      if (socket.bytesRead === 0) socket.destroy()
      // Its client must not send another request meanwhile. Only the last says so: Node hangs up after an answer that does.
      else if (lastAnswer !== null) lastAnswer.shouldKeepAlive = false
    }
  }

  return {
    /**
     * Requests of one connection are seen to one after the other: RFC 9112, 9.3.2 wants it of those that change something,
     * and nobody gets more done at a time by sending them ahead. Of a client that has left, what it had sent ahead is
     * not done any more.
     */
    inTurn({ raw: answer }: FastifyReply, go: () => void): void {
      const { socket } = answer.req
      const connection = connections.get(socket)
      if (connection === undefined) {
        go()
        return
      }
      const before = connection.lastAnswer
      connection.lastAnswer = answer
      if (before === null || before.writableFinished) {
        go()
        return
      }
      connection.waiting += 1
      if (connection.waiting > waitingMax) socket.destroy()
      before.once('close', () => {
        connection.waiting -= 1
        if (!socket.destroyed) go()
      })
    },
  }
}
