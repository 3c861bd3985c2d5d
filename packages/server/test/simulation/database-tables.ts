import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { pauseLane, resumeLane } from '../../src/delivery/lane-sql.ts'
import { publishEvents, publishSampleEvent } from '../../src/delivery/publish.ts'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { endSuspension, findAnswering, suspendFailing } from '../../src/delivery/suspension-sql.ts'
import type { OrgId, WebhookId } from '../../src/lib/ids.ts'
import { deleteWebhook, lockWebhook, updateWebhook } from '../../src/webhooks/sql.ts'
import { templateDatabase } from '../kit/postgres.ts'

class NotRequested extends Error {}

/** The real tables in a database of their own, with the operations that `tables.ts` has in memory. */
export async function createDatabaseTables() {
  const server = inject('postgres')
  const name = `test_${randomBytes(6).toString('hex')}`
  const admin = connect(server, { name: 'test admin', connectionsMax: 1 })
  await admin.unsafe(`create database ${name} template ${templateDatabase}`)
  const db = connect({ ...server, database: name }, { name: 'test', connectionsMax: 4 })
  await db`insert into keyhook.users (id, email, verified_by) values ('user_a', 'a@example.com', 'operator')`
  await ensurePartitions(db, Date.now())
  const orgOf = new Map<number, OrgId>()
  const webhookOf = (laneId: number) => `wh_${laneId}` as WebhookId
  let servers = 1

  return {
    db,
    async close(): Promise<void> {
      await db.end()
      await admin.unsafe(`drop database if exists ${name} with (force)`)
      await admin.end()
    },
    async addLane(orgId: OrgId, laneId: number): Promise<void> {
      orgOf.set(laneId, orgId)
      await db`insert into keyhook.organizations (id, name) values (${orgId}, 'A') on conflict do nothing`
      await db`
        insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by, lane_id)
        overriding system value
        values (${orgId}, ${webhookOf(laneId)}, 'https://example.com/', '{database.created}', 'key', 'box'::bytea, 'user_a', ${laneId})`
      await db`insert into keyhook.lanes (id, org_id, webhook_id) values (${laneId}, ${orgId}, ${webhookOf(laneId)})`
    },
    async publish(orgId: OrgId, { count, only }: { count: number; only: number | undefined }): Promise<void> {
      // Named as in the model: number and server.
      const [row] = await db<{ last_seq: string }[]>`
        select coalesce(max(last_seq), 0) as last_seq from keyhook.event_counters where org_id = ${orgId}`
      const ids = Array.from({ length: count }, (_, i) => `${Number(row!.last_seq) + i + 1}.${servers}`)
      const events = ids.map((id) => ({ id, type: 'database.created' as const, body: '{}' }))
      await db.begin(async (tx) => {
        if (only === undefined) return publishEvents(tx, orgId, events)
        for (const event of events) await publishSampleEvent(tx, orgId, webhookOf(only), event)
      })
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
      await db.begin((tx) => deleteWebhook(tx, orgOf.get(laneId)!, webhookOf(laneId)))
    },
    async pause(laneId: number, ms: number): Promise<void> {
      await db.begin((tx) => pauseLane(tx, orgOf.get(laneId)!, webhookOf(laneId), new Date(Date.now() + ms)))
    },
    async resume(laneId: number): Promise<void> {
      await db.begin((tx) => resumeLane(tx, orgOf.get(laneId)!, webhookOf(laneId)))
    },
    suspendFailing: (times: { probeMs: number; suspensionMs: number }): Promise<number> =>
      // For longer than a step takes.
      suspendFailing(db, { afterHours: 1e-9, ...times }),
    async endSuspensions(): Promise<number> {
      const lanes = await findAnswering(db)
      for (const laneId of lanes) await db.begin((tx) => endSuspension(tx, laneId, true))
      return lanes.length
    },
    async change(laneId: number, rateLimit: number | null, moves: boolean): Promise<void> {
      await db.begin(async (tx) => {
        const webhook = (await lockWebhook(tx, orgOf.get(laneId)!, webhookOf(laneId)))!
        const changed = { ...webhook, rate_limit: rateLimit, url: moves ? `${webhook.url}x` : webhook.url }
        await updateWebhook(tx, orgOf.get(laneId)!, webhookOf(laneId), webhook, changed)
      })
    },
    async redeliver(laneId: number, attemptId: string): Promise<boolean> {
      const work = db.begin(async (tx) => {
        const outcome = await redeliver(tx, orgOf.get(laneId)!, webhookOf(laneId), attemptId)
        // As the route does: a request that is not accepted leaves no trace.
        if (outcome !== 'requested') throw new NotRequested()
      })
      return work.then(
        () => true,
        (error: unknown) => {
          if (error instanceof NotRequested) return false
          throw error
        },
      )
    },
    async rows() {
      const [lanes, wakes, retries, inFlight, attempts, changes] = await Promise.all([
        db`select id::int, head_seq::int as head, cursor_seq::int as cursor, redelivery_requests as requests,
            lease_owner as owner, case when due_at is null then 'never' when due_at <= now() then 'now' else 'later' end as due,
            ended_at is not null as ended, version,
            case when paused_until is null then 'never' when paused_until <= now() then 'now' else 'later' end as paused,
            failures, failing_since is not null as failing,
            case when suspended_until is null then 'never' when suspended_until <= now() then 'now' else 'later' end as suspended,
            case when probe_at is null then 'never' when probe_at <= now() then 'now' else 'later' end as probe, resumes
          from keyhook.lanes`,
        db`select org_id as org, first_seq::int as first, last_seq::int as last from keyhook.wakes`,
        db`select lane_id::int as lane, event_seq::int as seq, attempt, try, redelivered,
            case when due_at <= now() then 'now' else 'later' end as due
          from keyhook.retries`,
        db`select f.lane_id::int as lane, f.event_seq::int as seq, f.attempt, f.try, f.id, f.redelivered,
            f.lease_token = l.lease_token as current
          from keyhook.in_flight f join keyhook.lanes l on l.id = f.lane_id`,
        db`select lane_id::int as lane, event_seq::int as seq, attempt, id, status from keyhook.attempts`,
        db`select l.id::int as lane, c.kind from keyhook.webhook_changes c
          join keyhook.lanes l on l.org_id = c.org_id and l.webhook_id = c.webhook_id
          where c.kind <> 'suspended'`,
      ])
      return { lanes, wakes, retries, inFlight, attempts, changes }
    },
  }
}
