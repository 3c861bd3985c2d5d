import fastify from 'fastify'
import { type ConnectionTarget, connect } from '../src/db/database.ts'

/** The limit: the least that a hand-written server would do, one insert per event that is posted. */
const { target } = JSON.parse(process.argv[2]!) as { target: ConnectionTarget }
const db = connect(target, { name: 'bench intake', connectionsMax: 10 })
await db`create table if not exists public.intake (id bigint generated always as identity primary key, org_id text, type text, data json)`
const app = fastify()
type Event = { organization_id: string; type: string; data: object }
app.post<{ Body: Event }>('/operator/v1/events', async (request, reply) => {
  const { organization_id, type, data } = request.body
  const [row] = await db`
    insert into public.intake (org_id, type, data) values (${organization_id}, ${type}, ${JSON.stringify(data)}::json) returning id`
  return reply.code(202).send({ id: row!.id })
})
process.send!(await app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', () => process.exit(0))
