import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { type ConnectionTarget, connect, type Database, isStalePreparedStatement } from '../../src/db/database.ts'
import { createJobQueue } from '../../src/jobs/queue.ts'
import { freePort } from '../kit/free-port.ts'
import { createInstallation } from '../kit/installation.ts'
import { bridgeTo } from '../kit/processes.ts'

/* PgBouncer in transaction mode with one server connection, which all clients share. */

const isInstalled = spawnSync('pgbouncer', ['--version']).status === 0
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

async function startPooler() {
  const { target, db, close } = await createInstallation()
  onTestFinished(close)
  // The socket file of the server belongs to another account.
  const server = (await bridgeTo(target)).target
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-pooler-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const port = await freePort()
  const files = {
    'users.txt': `"${target.user}" "${target.password}"\n`,
    'pgbouncer.ini': `[databases]
${target.database} = host=${server.host} port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users.txt')}
pool_mode = transaction
default_pool_size = 1
server_reset_query_always = 0
`,
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  if (nobody.uid !== undefined)
    for (const path of ['', ...Object.keys(files)]) await chown(join(folder, path), nobody.uid, nobody.gid)
  const child = spawn('pgbouncer', ['-q', join(folder, 'pgbouncer.ini')], { stdio: 'ignore', ...nobody })
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const pooled = { ...target, host: '127.0.0.1', port }
  const poolOf = (more: Partial<ConnectionTarget>, connectionsMax = 4): Database => {
    const pool = connect({ ...pooled, ...more }, { name: 'test', connectionsMax })
    onTestFinished(() => pool.end({ timeout: 1 }))
    return pool
  }
  const probe = poolOf({ prepare: false }, 1)
  const isReady = () =>
    probe`select 1`.then(
      () => true,
      () => false,
    )
  await expect.poll(isReady).toBe(true)
  return { db, pooled, poolOf }
}

test.skipIf(!isInstalled)(
  'with prepare=false, queries and transactions of two processes share a connection',
  async () => {
    const { db, poolOf } = await startPooler()
    await db`create table note (n int)`
    const pools = [poolOf({ prepare: false }), poolOf({ prepare: false })]
    const work = Array.from({ length: 40 }, async (_, n) => {
      const pool = pools[n % 2]!
      await pool.begin(async (tx) => {
        await tx`insert into note values (${n})`
        expect(await tx`show idle_in_transaction_session_timeout`).toEqual([
          { idle_in_transaction_session_timeout: '5s' },
        ])
      })
      expect(await pool`select n from note where n = ${n}`).toEqual([{ n }])
    })
    await Promise.all(work)
    expect(await db`select count(*)::int as n from note`).toEqual([{ n: 40 }])
    expect(await pools[0]!`show idle_in_transaction_session_timeout`).toEqual([
      { idle_in_transaction_session_timeout: '0' },
    ])
  },
)

// Without prepare=false a pooler that does not track prepared statements may fail a transaction, but never mix statements up.
test.skipIf(!isInstalled)(
  'prepared statements of two processes are never mixed up, and queries are sent again',
  async () => {
    const { poolOf } = await startPooler()
    const pools = [poolOf({}), poolOf({})]
    const answers = Array.from({ length: 40 }, async (_, n) => {
      const pool = pools[n % 2]!
      const [row] = await (n % 3 === 0
        ? pool`select ${n}::int as n, 'a' as kind`
        : pool`select ${n}::int as n, 'b' as kind`)
      expect(row).toEqual({ n, kind: n % 3 === 0 ? 'a' : 'b' })
      const [inside] = await pool
        .begin((tx) => tx`select ${n}::int as n, 'c' as kind`)
        .catch((error) => {
          expect(error).toSatisfy(isStalePreparedStatement)
          return [{ n, kind: 'c' }]
        })
      expect(inside).toEqual({ n, kind: 'c' })
    })
    await Promise.all(answers)
  },
)

test.skipIf(!isInstalled)('the job queue works through a pooler', async () => {
  const { pooled } = await startPooler()
  const queue = createJobQueue({ target: pooled, supervise: false, log: pino({ level: 'silent' }) })
  onTestFinished(() => queue.close())
  const { rows } = await (await queue.boss()).getDb().executeSql('select 1 as one')
  expect(rows).toEqual([{ one: 1 }])
})
