import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { connect } from '../../src/db/database.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { templateDatabase } from '../support/postgres.ts'

/** The real tables in a database of their own, with the operations that `tables.ts` has in memory. */
export async function createDatabaseTables() {
  const server = inject('postgres')
  const name = `test_${randomBytes(6).toString('hex')}`
  const admin = connect(server, { name: 'test admin', connectionsMax: 1 })
  await admin.unsafe(`create database ${name} template ${templateDatabase}`)
  const db = connect({ ...server, database: name }, { name: 'test', connectionsMax: 4 })
  await db`insert into keyhook.users (id, email) values ('user_a', 'a@example.com')`
  await db`create table keyhook.attempts_all partition of keyhook.attempts default`
  let events = 0
  let servers = 1

  return {
    db,
    async close(): Promise<void> {
      await db.end()
      await admin.unsafe(`drop database if exists ${name} with (force)`)
      await admin.end()
    },
    async addLane(orgId: OrgId, laneId: number): Promise<void> {
      await db`insert into keyhook.organizations (id, name) values (${orgId}, 'A') on conflict do nothing`
      await db`
        insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by, lane_id)
        overriding system value
        values (${orgId}, ${`wh_${laneId}`}, 'https://example.com/', '{database.created}', 'key', 'box'::bytea, 'user_a', ${laneId})`
      await db`insert into keyhook.lanes (id, org_id, webhook_id) values (${laneId}, ${orgId}, ${`wh_${laneId}`})`
    },
    async publish(orgId: OrgId, count: number): Promise<void> {
      // Named as in the model: number and server.
      const [row] = await db<{ last_seq: string }[]>`
        select coalesce(max(last_seq), 0) as last_seq from keyhook.event_counters where org_id = ${orgId}`
      const ids = Array.from({ length: count }, (_, i) => `${Number(row!.last_seq) + i + 1}.${servers}`)
      const types = ids.map(() => 'database.created')
      const bodies = ids.map(() => `${++events}`)
      await db`select keyhook.publish(${orgId}, ${ids}::text[], ${types}::text[], ${bodies}::text[], '{}')`
    },
    /** Other sessions find the lane locked until `work` is done. */
    whileLocked: (laneId: number, work: () => Promise<void>) =>
      db.begin(async (tx) => {
        await tx`select from keyhook.lanes where id = ${laneId} for update`
        await work()
      }),
    async changeServer(): Promise<void> {
      servers += 1
      await db`update keyhook.lanes set lease_server = lease_server - interval '1 second'`
    },
    async end(laneId: number): Promise<void> {
      await db.begin(async (tx) => {
        await tx`
          update keyhook.webhooks set deleted_at = now(), secret_box = null, secret_key_id = null
          where lane_id = ${laneId} and deleted_at is null`
        await tx`
          update keyhook.lanes l set ended_at = now(), due_at = case
            when lease_owner is not null then due_at
            else (select now() from keyhook.in_flight f where f.lane_id = l.id limit 1)
          end
          where id = ${laneId} and ended_at is null`
        await tx`delete from keyhook.retries where lane_id = ${laneId}`
      })
    },
    async redeliver(laneId: number, eventSeq: number): Promise<boolean> {
      const requested = await db`
        with retry as (
          insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
          select l.id, ${eventSeq}, l.org_id, now(), max(a.attempt), 0
          from keyhook.lanes l join keyhook.attempts a on a.lane_id = l.id and a.event_seq = ${eventSeq}
          where l.id = ${laneId} and l.ended_at is null and not exists (
            select from keyhook.in_flight f where f.lane_id = l.id and f.event_seq = ${eventSeq}
          )
          group by l.id
          on conflict (lane_id, event_seq) do update set due_at = now(), try = 0
          returning lane_id
        )
        update keyhook.lanes l set redelivery_requests = redelivery_requests + 1,
          due_at = case when l.lease_owner is null then least(l.due_at, now()) else l.due_at end
        from retry r where l.id = r.lane_id`
      return requested.count === 1
    },
    async rows() {
      const [lanes, wakes, retries, inFlight, attempts] = await Promise.all([
        db`select id::int, head_seq::int as head, cursor_seq::int as cursor, redelivery_requests as requests,
            lease_owner as owner, case when due_at is null then 'never' when due_at <= now() then 'now' else 'later' end as due,
            ended_at is not null as ended
          from keyhook.lanes`,
        db`select org_id as org, first_seq::int as first, last_seq::int as last from keyhook.wakes`,
        db`select lane_id::int as lane, event_seq::int as seq, attempt, try,
            case when due_at <= now() then 'now' else 'later' end as due
          from keyhook.retries`,
        db`select f.lane_id::int as lane, f.event_seq::int as seq, f.attempt, f.try, f.id,
            f.lease_token = l.lease_token as current
          from keyhook.in_flight f join keyhook.lanes l on l.id = f.lane_id`,
        db`select lane_id::int as lane, event_seq::int as seq, attempt, id, status from keyhook.attempts`,
      ])
      return { lanes, wakes, retries, inFlight, attempts }
    },
  }
}
