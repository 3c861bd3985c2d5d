import { readdir } from 'node:fs/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createOrganization, setMember } from '../../src/organizations/rules.ts'
import { createKillable } from '../databases/support/killable.ts'
import { testOperator } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { linesAbout } from './support/erasing.ts'

/*
 * The real program, with a database, a backup and stored WAL, while requests go on. It is killed at every step of the erasing that
 * the databases take, and several times between steps, and started again.
 */

const steps = [
  'deletion.erasing',
  'deletion.settling',
  'erase.removing',
  'erase.settling',
  'erase.settled',
  'deletion.finishing',
]

const filesIn = async (path: string): Promise<string[]> =>
  (await readdir(path, { withFileTypes: true, recursive: true }).catch(() => []))
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`)

test('an organization that is deleted under load and killed several times leaves nothing, and its neighbour loses nothing', {
  timeout: 400_000,
}, async () => {
  const keyhook = await createKillable({ KEYHOOK_POINT_IN_TIME_RESTORE: 'on', KEYHOOK_WAL_EVERY_SECONDS: '5' })
  onTestFinished(() => keyhook.remove())
  await keyhook.start()
  const { orgId } = keyhook
  const { ownerId, neighbour } = await keyhook.withDb(async (db) => {
    const [owner] = await db<
      { id: `usr_${string}` }[]
    >`select user_id as id from keyhook.memberships where org_id = ${orgId}`
    const made = await db.begin((tx) => createOrganization(tx, testOperator, { name: 'Neighbour' }))
    await setMember(db, testOperator, { orgId: made.id, userId: owner!.id, role: 'owner' })
    return { ownerId: owner!.id, neighbour: made.id }
  })
  const about = (path: string) => `/../${neighbour}${path}`
  // After a restart, the first organization is the neighbour.
  const own = (path: string) => `/../${orgId}${path}`
  const kept = (await keyhook.request<{ id: string }>(about('/databases'), { body: { name: 'kept' } })).body
  const shop = await keyhook.createDatabase('shop')
  await keyhook.createDatabase('second')
  const gone = await keyhook.createDatabase('gone')
  const backup = await keyhook.askForBackup(gone.id)
  await keyhook.settledBackup(backup.id)
  await keyhook.removeDatabase(gone.id)
  await keyhook.settledBackup((await keyhook.askForBackup(shop.id)).id)
  await until(async () => (await filesIn(keyhook.archives)).some((name) => name.includes(`/wal/${shop.id}/`)))
  await until(async () => {
    const { body } = await keyhook.request<{ status: string }>(about(`/databases/${kept.id}`))
    return body.status === 'available'
  })
  // History of some length: several steps are needed.
  await keyhook.withDb(
    (db) => db`
      insert into keyhook.audit_entries (org_id, id, action, actor_kind, target_id)
      select ${orgId}, 'aud_' || n, 'event.reported', 'operator', 'x' from generate_series(1, 40000) as n`,
  )
  // Of a node that is gone for good: another one erases what is left of it.
  await keyhook.withDb(
    (db) => db`
      insert into keyhook.databases (org_id, id, name, status, node, created_by)
      values (${orgId}, 'db_01m7n2bk5vfamv24tpe8shekmc', 'lost', 'deleting', 'node-lost', ${ownerId})`,
  )
  const [{ name }] = await keyhook.withDb(
    (db) => db<[{ name: string }]>`select name from keyhook.organizations where id = ${orgId}`,
  )

  let running = true
  const load = async () => {
    while (running) {
      await keyhook.request(own('/service-members'), { body: { name: 'load', role: 'member' } }).catch(() => {})
      await keyhook.request(own(`/databases/${shop.id}/backups`), { method: 'POST' }).catch(() => {})
    }
  }
  const loading = [load(), load()]
  onTestFinished(async () => {
    running = false
    await Promise.allSettled(loading)
  })
  await keyhook.killedAt('remove.settling', () => keyhook.request(own('/deletion'), { body: { confirm: name } }))
  for (const step of steps) await keyhook.killedAt(step, keyhook.start)
  await keyhook.start()
  // The steps before and after it are in the log of deletions, which counts each row once.
  const deleted = await until(() =>
    keyhook.withDb(async (db) => {
      const [row] = await db<{ deleted: Record<string, number>; finished_at: Date | null }[]>`
        select deleted, finished_at from keyhook.deletions where target_id = ${orgId}`
      return row!.finished_at !== null && row!.deleted
    }),
  )
  running = false
  await Promise.all(loading)
  expect(deleted).toMatchObject({ databases: 4, memberships: expect.any(Number) })
  expect(deleted.audit_entries).toBeGreaterThanOrEqual(40_000)
  expect(await keyhook.withDb((db) => linesAbout(db, [orgId, shop.id, gone.id]))).toEqual([])
  const stored = await filesIn(keyhook.archives)
  expect(stored.filter((path) => [shop.id, gone.id, backup.id].some((id) => path.includes(id)))).toEqual([])
  expect(await keyhook.inventory()).toMatchObject({ available: [kept.id], directories: [kept.id] })
  const { body } = await keyhook.request<{ status: string }>(about(`/databases/${kept.id}`))
  expect(body.status).toBe('available')
})
