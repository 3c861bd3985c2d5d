import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { Fault } from '../lib/faults.ts'
import { isId, type SessionId, type UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { checkOrigin, currentSession, type SignInWay, sessionRequired } from './console-sessions.ts'
import { deviceName } from './user-agent.ts'

type ListedSession = {
  id: SessionId
  way: SignInWay | null
  address: string | null
  user_agent: string | null
  created_at: Date
  used_at: Date
}

/** More than anybody reads; whoever has more signs out of all others. */
const sessionsShownMax = 200

/** Those of the user, or of the operator (null). */
const listSessions = (db: Database, userId: UserId | null) => db<ListedSession[]>`
  select id, way, address, user_agent, created_at, used_at from keyhook.console_sessions
  where user_id is not distinct from ${userId} and expires_at > now()
  order by used_at desc, id desc
  limit ${sessionsShownMax}`

const endOne = (db: Database, userId: UserId | null, id: SessionId) =>
  db`delete from keyhook.console_sessions where id = ${id} and user_id is not distinct from ${userId}`.exists()

const endOthers = (db: Database, userId: UserId | null, id: SessionId) =>
  db`delete from keyhook.console_sessions where id <> ${id} and user_id is not distinct from ${userId} returning id`

/** One's own sessions. Ending one deletes its row, which every request with its tokens looks for, on every node. */
export function addSessionList(
  app: FastifyInstance,
  { db, publicUrl, log }: { db: Database; publicUrl: string | null; log: Logger },
): void {
  app.get('/console/sessions', async (request, reply) => {
    const mine = await currentSession(db, request)
    if (mine === null) throw sessionRequired()
    const rows = await listSessions(db, mine.user_id)
    return reply.send(
      rows.map(({ id, way, address, user_agent, created_at, used_at }) => ({
        id,
        current: id === mine.id,
        way,
        address,
        device: deviceName(user_agent),
        created_at: isoTime(created_at),
        last_used_at: isoTime(used_at),
      })),
    )
  })

  app.delete<{ Params: { sessionId: string } }>('/console/sessions/:sessionId', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const mine = await currentSession(db, request)
    if (mine === null) throw sessionRequired()
    const id = request.params.sessionId
    if (!isId('ses', id) || !(await endOne(db, mine.user_id, id)))
      throw new Fault('not_found', { public: 'You have no session with this id.' })
    log.info({ userId: mine.user_id, sessions: 1, address: clientAddress(request) }, 'console.signed_out')
    return reply.code(204).send()
  })

  app.delete('/console/other-sessions', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const mine = await currentSession(db, request)
    if (mine === null) throw sessionRequired()
    const { count: sessions } = await endOthers(db, mine.user_id, mine.id)
    log.info({ userId: mine.user_id, sessions, address: clientAddress(request) }, 'console.signed_out')
    return reply.code(204).send()
  })
}
