import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { until } from '../kit/until.ts'
import { clientOf, type DatabaseBody, eventsOf } from './support/customer.ts'
import { namesIn, type Platform, postmastersIn, startPlatform } from './support/platform.ts'

let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({ KEYHOOK_DATABASES_PER_ORG_MAX: '6' })
  // The first start makes a spare cluster, which the first database takes; the others are timed without it.
  const first = await platform.createDatabase('first')
  await platform.removeDatabase(first.id)
})
afterAll(() => platform.close())

test('a database accepts an ordinary client with the printed connection string and password', async () => {
  const asked = await platform.request<DatabaseBody>('/databases', { body: { name: 'shop' } })
  expect(asked.status).toBe(202)
  expect(asked.body).toMatchObject({ name: 'shop', status: 'provisioning', host: null, connection_string: null })
  expect(asked.body.password).toMatch(/^[0-9A-Za-z]{32}$/)
  const database = await platform.settledDatabase(asked.body.id)
  expect(database).toMatchObject({ status: 'available', user: 'app', database: 'app', failure: null })
  expect(database.connection_string).toBe(`postgres://app@127.0.0.1:${database.port}/app?sslmode=verify-full`)
  expect(database).not.toHaveProperty('password')
  const sql = clientOf({ ...database, password: asked.body.password! })
  await sql`create table t (n int)`
  await sql`insert into t values (1)`
  const [facts] = await sql`
    select current_user as who, current_setting('data_checksums') as checksums, rolsuper, rolcreaterole
    from pg_roles where rolname = current_user`
  expect(facts).toEqual({ who: 'app', checksums: 'on', rolsuper: false, rolcreaterole: false })
})

test('psql and pgbench, if installed, connect with the same string', async ({ skip }) => {
  const bin = '/usr/lib/postgresql/15/bin'
  if (!existsSync(join(bin, 'pgbench')) || !existsSync(join(bin, 'psql'))) skip()
  const database = await platform.createDatabase('bench')
  const PGSSLROOTCERT = join(platform.folder, 'database-ca.pem')
  await writeFile(PGSSLROOTCERT, await (await fetch(`${platform.url}/database-ca.pem`)).text())
  const env = { PGPASSWORD: database.password, PGSSLROOTCERT, PATH: '/usr/bin:/bin' }
  const run = (program: string, ...args: string[]) => promisify(execFile)(join(bin, program), args, { env })
  const { stdout } = await run('psql', database.connection_string!, '-Atc', 'select 6 * 7')
  expect(stdout.trim()).toBe('42')
  await run('pgbench', '-i', '-q', database.connection_string!)
  const bench = await run('pgbench', '-c', '4', '-T', '1', database.connection_string!)
  expect(bench.stdout).toMatch(/number of failed transactions: 0 /)
})

test('the password of a database is in no row, no job, no file and no log', async () => {
  const database = await platform.createDatabase('secret')
  const tables = await platform.db<{ name: string }[]>`
    select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('keyhook', 'keyhook_jobs')`
  for (const { name } of tables) {
    const rows = await platform.db.unsafe(`select t::text as row from ${name} t`)
    for (const row of rows) expect(row.row, name).not.toContain(database.password)
  }
  const grep = promisify(execFile)('grep', ['-rlaF', database.password, platform.folder])
  await expect(grep, 'grep finds nothing and ends with code 1').rejects.toMatchObject({ code: 1 })
  const [row] = await platform.db`select password_verifier from keyhook.databases where id = ${database.id}`
  expect(row).toEqual({ password_verifier: null })
  await expect(clientOf({ ...database, password: 'wrong' })`select 1`).rejects.toThrow('password authentication failed')
})

test('the superuser of an instance cannot connect over TCP', async () => {
  const database = await platform.createDatabase('closed')
  const url = database.connection_string!.replace('app@', 'keyhook@')
  await expect(clientOf({ connection_string: url, password: 'x' })`select 1`).rejects.toThrow(/no pg_hba.conf entry/)
  await platform.request(`/databases/${database.id}`, { method: 'DELETE' })
})

test('a customer cannot fill the log of a server, and cannot raise the limit for temporary files', async () => {
  const database = await platform.createDatabase('verbose')
  const sql = clientOf(database)
  await sql.unsafe(`do $$ begin for i in 1..3 loop raise log '%', repeat('chatter ', 100000); end loop; end $$`)
  await sql.unsafe(`set debug_print_parse = on; set trace_sort = on; select 'chatter' as c order by random()`)
  for (const attempt of ['log_min_messages = log', 'temp_file_limit = -1']) {
    await expect(sql.unsafe(`set ${attempt}`)).rejects.toThrow('permission denied')
    await expect(sql.unsafe(`alter database app set ${attempt}`)).rejects.toThrow('permission denied')
  }
  expect(await sql`show temp_file_limit`).toEqual([{ temp_file_limit: '1280MB' }])
  const log = await readFile(join(platform.home, database.id, 'postgres.log'), 'utf8')
  expect(/chatter|sort/.test(log)).toBe(false)
  await platform.removeDatabase(database.id)
})

test('database.created is published once', async () => {
  const database = await platform.createDatabase('once')
  const mine = await platform.eventsAbout('database_id', database.id)
  expect(mine).toEqual([{ type: 'database.created', data: { database_id: database.id, name: 'once' } }])
  await platform.removeDatabase(database.id)
})

test('deleting a database stops its processes, removes its files, and hides its row', async () => {
  const database = await platform.createDatabase('short')
  const cluster = join(platform.home, database.id, 'cluster')
  expect((await postmastersIn(platform.home)).map((one) => one.cluster)).toContain(cluster)
  const answer = await platform.request<DatabaseBody>(`/databases/${database.id}`, { method: 'DELETE' })
  expect(answer.status).toBe(202)
  expect(answer.body).toMatchObject({ status: 'deleting', connection_string: null })
  await platform.gone(`/databases/${database.id}`)
  expect((await postmastersIn(platform.home)).map((one) => one.cluster)).not.toContain(cluster)
  expect(await namesIn(platform.home)).not.toContain(database.id)
  expect((await platform.request(`/databases/${database.id}`, { method: 'DELETE' })).status).toBe(404)
  const [row] = await platform.db`select status from keyhook.databases where id = ${database.id}`
  expect(row).toEqual({ status: 'deleted' })
})

test('a database whose usage started in the future, because a clock was wrong, can be deleted', async () => {
  const database = await platform.createDatabase('early')
  await platform.db`
    update keyhook.database_usage set started_at = clock_timestamp() + interval '1 hour' where database_id = ${database.id}`
  expect((await platform.request(`/databases/${database.id}`, { method: 'DELETE' })).status).toBe(202)
  await platform.gone(`/databases/${database.id}`)
  const [usage] = await platform.db`
    select ended_at = started_at as is_nothing from keyhook.database_usage where database_id = ${database.id}`
  expect(usage).toEqual({ is_nothing: true })
})

test('a database that is deleted while it is provisioned leaves no files, and publishes one event', async () => {
  const { body } = await platform.request<DatabaseBody>('/databases', { body: { name: 'regret' } })
  await platform.removeDatabase(body.id)
  const unsettled = () =>
    platform.db`select 1 from keyhook_jobs.job where data ->> 'databaseId' = ${body.id} and state < 'completed'`
  await until(unsettled, (jobs) => jobs.length === 0)
  expect(await namesIn(platform.home)).not.toContain(body.id)
  expect((await postmastersIn(platform.home)).filter((one) => one.cluster.includes(body.id))).toEqual([])
  const events = await platform.eventsAbout('database_id', body.id)
  expect(events.map(({ type, data }) => [type, data.reason])).toEqual([
    ['database.failed', 'The database was deleted.'],
  ])
})

test('an instance that is killed is restarted once, on the same port', async () => {
  const database = await platform.createDatabase('sturdy')
  const cluster = join(platform.home, database.id, 'cluster')
  const mine = async () => (await postmastersIn(platform.home)).filter((one) => one.cluster === cluster)
  const [before] = await mine()
  await clientOf(database)`create table kept as select 1 as n`
  process.kill(before!.pid, 'SIGKILL')
  const [row] = await until(
    () => clientOf(database)`select n from kept`.catch(() => []),
    (rows) => rows.length === 1,
  )
  expect(row).toEqual({ n: 1 })
  const after = await mine()
  expect(after).toHaveLength(1)
  expect(after[0]!.pid).not.toBe(before!.pid)
  await platform.removeDatabase(database.id)
})

test('an organization has a limit of databases', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) => platform.request<DatabaseBody>('/databases', { body: { name: `n${n}` } })),
  )
  expect(answers.filter((one) => one.status === 422).length).toBeGreaterThan(0)
  expect(answers.find((one) => one.status === 422)?.body).toMatchObject({ code: 'limit.reached' })
  const { body } = await platform.request<DatabaseBody[]>('/databases')
  expect(body.length).toBeLessThanOrEqual(6)
})

test('a member can read databases but not create or delete them; members of other organizations get 404', async () => {
  const member = await platform.person([{ orgId: platform.orgId, role: 'member' }])
  const stranger = await platform.person([{ orgId: await platform.organization('Other'), role: 'owner' }])
  const { token } = member
  const [known] = (await platform.request<DatabaseBody[]>('/databases', { token })).body
  expect((await platform.request('/databases', { token, body: { name: 'x' } })).status).toBe(403)
  expect((await platform.request(`/databases/${known!.id}`, { token, method: 'DELETE' })).status).toBe(403)
  expect((await platform.request(`/databases/${known!.id}`, { token })).status).toBe(200)
  expect((await platform.request(`/databases/${known!.id}`, { token: stranger.token })).status).toBe(404)
})

test('if no port is free, provisioning ends in database.failed with the reason, and leaves no files', async () => {
  const taken = createServer()
  await new Promise<void>((done) => taken.listen({ host: '127.0.0.1', port: 0 }, done))
  onTestFinished(() => new Promise((done) => taken.close(() => done())))
  const { port } = taken.address() as { port: number }
  const small = await startPlatform({ KEYHOOK_DATABASES_PORTS: `${port}-${port}` })
  onTestFinished(() => small.close())
  const { body } = await small.request<DatabaseBody>('/databases', { body: { name: 'no port' } })
  const database = await small.settledDatabase(body.id)
  const reason = 'No port is free for it on its node.'
  expect(database).toMatchObject({ status: 'failed', failure: reason, connection_string: null })
  expect(await eventsOf(small.db, small.orgId)).toEqual([
    { type: 'database.failed', data: { database_id: body.id, name: 'no port', reason } },
  ])
  expect(await namesIn(small.home)).toEqual([])
  expect(await postmastersIn(small.home)).toEqual([])
})
