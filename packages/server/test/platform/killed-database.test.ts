import { afterAll, beforeAll, expect, test } from 'vitest'
import { createKillable, type Killable, nothingAmiss } from './support/killable.ts'
import { type DatabaseBody, eventsOf, until } from './support/platform.ts'

let keyhook: Killable
beforeAll(async () => {
  keyhook = await createKillable()
  await keyhook.start()
})
afterAll(() => keyhook.remove())

const list = async () => (await keyhook.request<DatabaseBody[]>('/databases')).body

const provisioningSteps = [
  'template.making',
  'place.settling',
  'provision.making',
  'provision.copying',
  'provision.starting',
  'provision.setting_password',
  'provision.settling',
  'provision.settled',
]
const removalSteps = ['remove.stopping', 'remove.deleting_files', 'remove.settling', 'remove.settled']

test('killed at any step of provisioning, it ends with one database, one server, one directory and one event', async () => {
  for (const [n, step] of provisioningSteps.entries()) {
    await keyhook.killedAt(step, () => keyhook.request('/databases', { body: { name: step } }))
    await keyhook.start()
    const found = await keyhook.settled()
    expect(found, step).toMatchObject(nothingAmiss(found))
    expect(found.available, step).toHaveLength(n + 1)
    expect((await list()).filter((one) => one.name === step).map((one) => one.status)).toEqual(['available'])
  }
  const events = await keyhook.withDb((db) => eventsOf(db, keyhook.orgId))
  expect(events.map((event) => `${event.type} ${event.data.name}`).sort()).toEqual(
    provisioningSteps.map((step) => `database.created ${step}`).sort(),
  )
}, 120_000)

test('killed at any step of a removal, it ends with nothing left of that database and all of the others', async () => {
  for (const step of removalSteps) {
    const before = await list()
    const victim = before.at(-1)!
    await keyhook.killedAt(step, () => keyhook.request(`/databases/${victim.id}`, { method: 'DELETE' }))
    await keyhook.start()
    const found = await keyhook.settled()
    expect(found, step).toMatchObject(nothingAmiss(found))
    expect(found.available, step).toEqual(
      before
        .map((one) => one.id)
        .filter((id) => id !== victim.id)
        .sort(),
    )
  }
}, 120_000)

test('a clean stop ends every server, and the next start brings every database back where it was', async () => {
  const before = await list()
  expect(before.length).toBeGreaterThan(0)
  await keyhook.stop()
  const { postmastersIn } = await import('./support/platform.ts')
  expect(await postmastersIn(keyhook.home)).toEqual([])
  await keyhook.start()
  await keyhook.settled()
  expect(await list()).toEqual(before)
  for (const one of before) await keyhook.request(`/databases/${one.id}`, { method: 'DELETE' })
  await until(list, (all) => all.length === 0)
})
