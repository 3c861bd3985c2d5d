import fastify from 'fastify'
import { createAccessLookup } from '../src/access/access.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import { mintApiKey } from '../src/lib/secrets.ts'

/**
 * The cost of the rule that nothing is cached between requests: bare Fastify with the same bytes and one empty statement
 * in every tick that had requests, batched and answered as Keyhook does it. No key is looked up.
 */
const { body, target } = JSON.parse(process.argv[2]!) as { body: string; target: ConnectionTarget }
const db = connect(target, { name: 'bench tick', connectionsMax: 2 })
const emptyAnswer = () => db.unsafe('select null::text as found', [])
const { apiKey: key } = mintApiKey('kh')
const ask = createAccessLookup({ unsafe: emptyAnswer } as unknown as Database)
const app = fastify()
app.get('/api/v1/organizations', (_request, reply) => {
  ask.key(key, (error) => {
    if (error !== null) return reply.code(500).send()
    reply.type('application/json; charset=utf-8').header('cache-control', 'no-store').send(body)
  })
})
process.send!(await app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', () => process.exit(0))
