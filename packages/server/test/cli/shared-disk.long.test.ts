import { join } from 'node:path'
import { expect, test } from 'vitest'
import { portRange } from '../databases/support/platform.ts'
import { call } from '../kit/client.ts'
import { customerSqlForTest } from '../kit/customer-sql.ts'
import { keyhook, serve } from '../kit/processes.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { until } from '../kit/until.ts'

type Storage = { state: string; message: string | null }
type DatabaseBody = { id: string; status: string; connection_string: string; password: string; storage: Storage | null }

test('a tenant who fills the disk becomes read-only, and the neighbour goes on writing', {
  timeout: 300_000,
}, async (context) => {
  const disk = await smallDisk('size=900m')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const environment = {
    KEYHOOK_DATA_DIR: join(disk, 'data'),
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_DATABASES_TLS: 'off',
    // What is on this disk is memory, and would count.
    KEYHOOK_DATABASE_MEMORY_MAX: '64GB',
    // Backups of the neighbour would be on this disk too.
    KEYHOOK_POINT_IN_TIME_RESTORE: 'off',
    KEYHOOK_LOG_LEVEL: 'warn',
  }
  const server = await serve(environment)
  const { owner_id: owner, organization_id: orgId } = server.ready
  const issued = await keyhook(['token', 'issue', '--user', owner, '--ttl', '1h', '--json'], environment)
  const { token } = JSON.parse(issued.stdout) as { token: string }
  const databases = `${server.url}/platform/v1/organizations/${orgId}/databases`
  const read = async (id: string) => (await call<DatabaseBody>(`${databases}/${id}`, { token })).body
  const create = async (name: string) => {
    const { body } = await call<DatabaseBody>(databases, { token, body: { name } })
    const ready = await until(
      () => read(body.id),
      ({ status, storage }) => status === 'available' && storage !== null,
    )
    return { id: body.id, sql: () => customerSqlForTest(ready.connection_string, body.password) }
  }
  const [greedy, neighbour] = [await create('greedy'), await create('neighbour')]
  const neighbourSql = neighbour.sql()
  await neighbourSql.unsafe('create table notes (content text)')

  const sql = greedy.sql()
  await sql.unsafe('create table filler (content text)')
  await sql.unsafe('alter table filler alter content set storage external')
  const fill = async (): Promise<never> => {
    for (;;) {
      await sql.unsafe(`insert into filler select repeat('x', 1000000) from generate_series(1, 5)`)
      await neighbourSql`insert into notes values ('written meanwhile')`
    }
  }
  await expect(fill()).rejects.toThrow()
  await until(
    () => read(greedy.id),
    ({ storage }) => storage!.state !== 'normal',
  )
  expect((await call<{ disk: { state: string } }>(`${server.url}/readyz`)).body.disk.state).toBe('low')
  for (let n = 0; n < 20; n++) {
    await neighbourSql`insert into notes values ('written afterwards')`
    expect((await read(neighbour.id)).storage).toMatchObject({ state: 'normal', message: null })
    expect((await read(greedy.id)).storage!.message).toContain('the disk of its node is nearly full')
  }
})
