import { existsSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { scramVerifier } from '../../src/databases/database.ts'
import { openCgroups } from '../../src/databases/drivers/local/cgroups.ts'
import type { Database } from '../../src/db/database.ts'
import { newId } from '../../src/lib/ids.ts'
import { customerSqlForTest } from '../kit/customer-sql.ts'
import { until } from '../kit/until.ts'
import { openInstances } from './support/local-instances.ts'
import { postmastersIn, scratchFolder } from './support/platform.ts'

/** Null where a memory cgroup can be created, else the reason. */
function whyNoCgroups(): string | null {
  const opened = openCgroups('probe of the tests')
  if ('problem' in opened) return opened.problem
  opened.cgroups.close()
  return null
}
const problem = whyNoCgroups()
const named = (name: string): string => (problem === null ? name : `${name} (skipped, no memory cgroup: ${problem})`)

const password = 'correct horse battery staple'
const killed: string[] = []
let dataDir: string
let instances: ReturnType<typeof openInstances>

beforeAll(async () => {
  dataDir = join(await scratchFolder(), 'data')
  await mkdir(dataDir, { mode: 0o755 })
  instances = openInstances(dataDir, {
    limits: { memoryBytes: 256 * 1024 ** 2, processesMax: 400, cpus: 1 },
    onEvent: (id, { kind }) => void (kind === 'out_of_memory' && killed.push(id)),
  })
})
afterAll(async () => {
  await instances.close()
  await rm(join(dataDir, '..'), { recursive: true, force: true })
})

async function provision() {
  const id = newId('db')
  const signal = new AbortController().signal
  const { host, port } = await instances.provision(id, { passwordVerifier: await scramVerifier(password), signal })
  const client = (): Database => customerSqlForTest(`postgres://app@${host}:${port}/app`, password)
  return { id, client }
}

/** Builds some 90 MB in the memory of one session, and keeps them for five seconds. */
const hoard = (sql: Database): Promise<unknown> =>
  sql`select array_length(array_agg(repeat(md5(g::text), 31)), 1), pg_sleep(5) from generate_series(1, 80000) g`.catch(
    (error: unknown) => error,
  )

// PostgreSQL is started through it; without it there is no limit for one process.
test.skipIf(!existsSync('/usr/bin/prlimit'))(
  'a sort with work_mem = 64GB fails in its session, which goes on',
  { timeout: 120_000 },
  async () => {
    const { client } = await provision()
    const sql = client()
    await sql.unsafe(`set work_mem = '64GB'`)
    const sort = sql`
      select count(*) from (select repeat(md5(g::text), 30) as t from generate_series(1, 3000000) g order by t) s`
    await expect(sort).rejects.toMatchObject({ code: '53200' })
    expect(await sql`show work_mem`).toEqual([{ work_mem: '64GB' }])
  },
)

test.skipIf(problem !== null)(
  named('sessions that use up the memory of a database end with it, and other databases do not notice'),
  { timeout: 120_000 },
  async () => {
    const [greedy, neighbour] = [await provision(), await provision()]
    await greedy.client()`create table kept as select 1 as one`
    const quiet = neighbour.client()
    const session = () => quiet`select pg_backend_pid() as pid, pg_postmaster_start_time()::text as started`
    const before = await session()
    for (const { pid } of await postmastersIn(join(dataDir, 'databases'))) {
      expect(await readFile(`/proc/${pid}/cgroup`, 'utf8')).toMatch(/memory.*keyhook-|0::.*keyhook-/)
    }
    // Six times 90 MB are more than 256 MB, if they are held at the same time.
    await until(
      async () => {
        await Promise.all(Array.from({ length: 6 }, () => hoard(greedy.client())))
        return killed.length
      },
      (kills) => kills > 0,
    )
    expect(new Set(killed)).toEqual(new Set([greedy.id]))
    const rows = await until(
      () => greedy.client()`select one from kept`.catch(() => null),
      (found) => found !== null,
    )
    expect(rows).toEqual([{ one: 1 }])
    expect(await session()).toEqual(before)
  },
)
