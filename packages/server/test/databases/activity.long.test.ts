import { afterAll, beforeAll, expect, test } from 'vitest'
import { clientOf } from './support/customer.ts'
import { type Platform, startNode, startPlatform } from './support/platform.ts'

let platform: Platform
beforeAll(async () => {
  // No room here: databases go to another node, and this one answers about them.
  platform = await startPlatform({ KEYHOOK_DATABASES_PER_NODE_MAX: '1' })
})
afterAll(() => platform.close())

type Stats = {
  size_bytes: number | null
  connections: number | null
  connections_max: number | null
  at: string | null
}

test('a server shows the size and the connections of databases on every node, while they change', async () => {
  const here = await platform.createDatabase('here')
  const other = await startNode(platform)
  await other.ready
  const there = await platform.createDatabase('there')
  const stats = async (id: string) => (await platform.request<Stats>(`/databases/${id}/stats`)).body
  const connections = async () => [(await stats(here.id)).connections, (await stats(there.id)).connections]

  await expect.poll(connections).toEqual([0, 0])
  const first = await stats(there.id)
  expect(first).toMatchObject({ size_bytes: expect.any(Number), connections_max: expect.any(Number) })
  const sql = clientOf(there)
  await sql`create table rows as select repeat('x', 1000) as text from generate_series(1, 20000)`
  await expect.poll(connections).toEqual([0, 1])
  await expect.poll(async () => (await stats(there.id)).size_bytes).toBeGreaterThan(first.size_bytes! + 16_000_000)
  expect((await stats(there.id)).connections_max).toBeGreaterThan(1)
})
