import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { operator } from '../src/access/audit.ts'
import { signOperatorTokens } from '../src/compose/routes.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import { ensurePartitions } from '../src/delivery/retention-sql.ts'
import { attemptIdOf, newId, type OrgId, type WebhookId } from '../src/lib/ids.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { mintApiKey } from '../src/lib/secrets.ts'
import { issueOperatorToken } from '../src/operator/token-routes.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { insertWebhook } from '../src/webhooks/sql.ts'
import { startChild } from './child.ts'
import { createLoad } from './load.ts'
import { median } from './median.ts'
import { eventOf } from './report.ts'
import { fillWithKeys } from './stored-keys.ts'

const attempts = Number(process.env.BENCH_ATTEMPTS ?? 1_000_000)
const turns = Number(process.env.BENCH_TURNS ?? 9)
const seconds = Number(process.env.BENCH_SECONDS ?? 5)
const webhooks = 5
const weeks = 8
const eventsPerBatch = 100
const weekMs = 7 * 86_400_000
const masterKeys = createMasterKeys([Buffer.alloc(32)])

/** Milliseconds, events per second or MB, by what was measured. */
type Measured = Map<string, string>

/**
 * What a long history costs: the lists of one organization with a million attempts to five webhooks, one in a hundred of them
 * failed and one event in ten thousand of a rare type, and accepting events beside it. Printed beside an installation without any.
 */
export async function benchHistory(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  try {
    const empty = await measure(embedded.connection, 'empty', 0)
    const full = await measure(embedded.connection, 'history', attempts)
    console.log(`${''.padEnd(62)}${'empty'.padStart(12)}${`${attempts.toLocaleString('en')} attempts`.padStart(22)}`)
    for (const [what, figure] of full)
      console.log(`${what.padEnd(62)}${(empty.get(what) ?? '').padStart(12)}${figure.padStart(22)}`)
  } finally {
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function measure(cluster: ConnectionTarget, name: string, count: number): Promise<Measured> {
  const key = mintApiKey('kh')
  const target = await fillWithKeys(cluster, name, [key], 0)
  const db = connect(target, { name: 'bench', connectionsMax: 2 })
  const orgId = (await db<{ org_id: OrgId }[]>`select org_id from keyhook.api_keys`)[0]!.org_id
  const webhookIds = await addWebhooks(db, orgId)
  await fillHistory(db, orgId, count)
  const server = await startChild(new URL('api-server.ts', import.meta.url), { target })
  try {
    const measured: Measured = new Map()
    const platform = `/platform/v1/organizations/${orgId}`
    for (const [what, path] of [
      [
        'attempts to one webhook, newest 100',
        `/api/v1/organizations/${orgId}/webhooks/${webhookIds[0]}/deliveries?limit=100`,
      ],
      ['deliveries', `${platform}/deliveries`],
      ['deliveries, from the middle', `${platform}/deliveries?cursor=${await middle(db)}`],
      ['deliveries?status=failed', `${platform}/deliveries?status=failed`],
      ['deliveries?status=interrupted (there are none)', `${platform}/deliveries?status=interrupted`],
      ['deliveries?event_types=invoice.paid (rare)', `${platform}/deliveries?event_types=invoice.paid`],
      ['deliveries?event_types=backup.completed (half of them)', `${platform}/deliveries?event_types=backup.completed`],
      [
        'deliveries?status=failed&event_types=invoice.paid',
        `${platform}/deliveries?status=failed&event_types=invoice.paid`,
      ],
      ['events', `${platform}/events`],
      ['events?event_types=invoice.paid', `${platform}/events?event_types=invoice.paid`],
      ['delivery-summary', `${platform}/delivery-summary`],
    ] as const)
      measured.set(`GET ${what}, ms`, await readMs(server.url + path, key.apiKey))
    const accepted = await acceptedPerSecond(db, server.url, orgId)
    measured.set(`events accepted, ${eventsPerBatch} a request, per second`, String(Math.round(accepted)))
    measured.set('memory of the process afterwards, MB (most, now)', await memoryMb(server.pid))
    return measured
  } finally {
    await server.stop()
    await db.end()
  }
}

/** The median, and the slowest: the first requests of a connection prepare their statements. */
async function readMs(url: string, token: string): Promise<string> {
  const times: number[] = []
  for (let turn = 0; turn < turns; turn++) {
    const begun = performance.now()
    const reply = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
    const text = await reply.text()
    if (reply.status !== 200) throw new Error(`${url}: ${reply.status} ${text}`)
    times.push(performance.now() - begun)
  }
  return `${median(times).toFixed(1)} (${Math.max(...times).toFixed(0)})`
}

async function acceptedPerSecond(db: Database, url: string, orgId: OrgId): Promise<number> {
  const issue = { name: 'bench', ttlSeconds: 3_600 }
  const { token } = await db.begin((tx) => issueOperatorToken(tx, signOperatorTokens(masterKeys), operator, issue))
  const body = `[${Array(eventsPerBatch).fill(eventOf(orgId)).join()}]`
  const load = createLoad({ connections: 8, seconds })
  return (await load.requestsPerSecond(`${url}/operator/v1/events`, [{ token, body }])) * eventsPerBatch
}

async function memoryMb(pid: number): Promise<string> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const of = (name: string) => Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1_024)
  return `${of('VmHWM')}, ${of('VmRSS')}`
}

async function addWebhooks(db: Database, orgId: OrgId): Promise<WebhookId[]> {
  const ids = Array.from({ length: webhooks }, () => newId('wh'))
  const [user] = await db`select user_id from keyhook.memberships where org_id = ${orgId}`
  for (const id of ids) {
    const secret = masterKeys.seal(`whsec_${Buffer.alloc(32, 3).toString('base64')}`, id)
    const eventTypes = ['database.created' as const, 'backup.completed' as const, 'invoice.paid' as const]
    const webhook = { id, url: 'https://example.com/hook', eventTypes, secret, createdBy: user!.user_id }
    await db.begin((tx) => insertWebhook(tx, orgId, webhook, 1e6))
  }
  return ids
}

/** Events of the past weeks with a delivery and an attempt for each webhook, as the engine would have left them. */
async function fillHistory(db: Database, orgId: OrgId, count: number): Promise<void> {
  const begun = performance.now()
  const nowMs = Date.now()
  for (let week = 0; week <= weeks; week++) await ensurePartitions(db, nowMs - week * weekMs)
  const events = Math.ceil(count / webhooks)
  const stepMs = events === 0 ? 0 : Math.floor((weeks * weekMs) / events)
  await db`
    insert into keyhook.event_counters (org_id, last_seq, last_sequence) values (${orgId}, ${events}, ${events})
    on conflict (org_id) do update set last_seq = ${events}, last_sequence = ${events}`
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body, created_at)
    select ${orgId}, n, n, 'evt_' || lpad(n::text, 26, '0'),
      case when n % 10000 = 0 then 'invoice.paid' when n % 2 = 0 then 'backup.completed' else 'database.created' end,
      '{"id":"evt_' || lpad(n::text, 26, '0') || '","data":{"name":"' || repeat('x', 200) || '"}}',
      to_timestamp((${nowMs}::bigint - (${events}::bigint - n) * ${stepMs}::bigint) / 1000.0)
    from generate_series(1, ${events}::bigint) n`
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id, sequence, previous_sequence)
    select ${orgId}, n, w.lane_id, n, nullif(n - 1, 0) from generate_series(1, ${events}::bigint) n
    cross join keyhook.webhooks w where w.org_id = ${orgId}`
  await db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, address,
      request_headers, response_status, response_headers, response_body, response_complete)
    select ${orgId}, w.lane_id,
      (lpad(to_hex(t.ms), 12, '0') || '7000' || '8' || lpad(to_hex(w.lane_id), 15, '0'))::uuid, t.n, 1,
      case when t.n % 100 = 0 then 'failed' else 'succeeded' end, to_timestamp(t.ms / 1000.0), 5000, '127.0.0.1',
      repeat('content-type: application/json' || chr(10), 10), case when t.n % 100 = 0 then 500 else 200 end,
      repeat('content-type: application/json' || chr(10), 5), 'ok', true
    from (
      select n, ${nowMs}::bigint - (${events}::bigint - n) * ${stepMs}::bigint as ms from generate_series(1, ${events}::bigint) n
    ) t
    cross join keyhook.webhooks w where w.org_id = ${orgId}`
  await db`update keyhook.lanes set head_seq = ${events}, cursor_seq = ${events} where org_id = ${orgId}`
  await db`vacuum analyze`
  // Otherwise PostgreSQL writes the filled pages while we measure.
  await db`checkpoint`
  if (count > 0)
    console.log(`stored ${count.toLocaleString('en')} attempts in ${Math.round((performance.now() - begun) / 1_000)} s`)
}

/** A cursor in the middle of the history. */
async function middle(db: Database): Promise<string> {
  const [row] = await db<{ id: string }[]>`
    select id from keyhook.attempts order by id desc offset (select count(*) / 2 from keyhook.attempts) limit 1`
  return row === undefined
    ? Buffer.from(newId('dlv')).toString('base64url')
    : Buffer.from(attemptIdOf(row.id)).toString('base64url')
}
