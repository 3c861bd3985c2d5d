import fastify from 'fastify'
import { createAccessLookup } from '../src/access/access.ts'
import { type ConnectionTarget, connect } from '../src/db/database.ts'

/**
 * The cost of looking up every key, and nothing else: bare Fastify with the same bytes, which looks up the key of each request as
 * Keyhook does it, and answers requests that have one. No roles, no paths with organizations, no log, no errors of ours.
 */
const { body, target } = JSON.parse(process.argv[2]!) as { body: string; target: ConnectionTarget }
const lookUp = createAccessLookup(connect(target, { name: 'bench look-up', connectionsMax: 2 }))
const app = fastify()
app.get('/api/v1/organizations', (request, reply) => {
  const key = request.headers.authorization!.slice('Bearer '.length)
  const isAsked = lookUp.key(key, (_error, access) => {
    if (access === null) return reply.code(401).send()
    reply.type('application/json; charset=utf-8').header('cache-control', 'no-store').send(body)
  })
  if (!isAsked) reply.code(401).send()
})
process.send!(await app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', () => process.exit(0))
