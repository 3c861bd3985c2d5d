import fastify from 'fastify'

/** The limit: Fastify answering every request with the same bytes. */
const { body, path = '/api/v1/organizations' } = JSON.parse(process.argv[2]!) as { body: string; path?: string }
const app = fastify()
app.route({
  method: ['GET', 'POST'],
  url: path,
  handler(_request, reply) {
    reply.type('application/json; charset=utf-8').header('cache-control', 'no-store').send(body)
  },
})
process.send!(await app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', () => process.exit(0))
