import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { createMasterKeys } from '../../src/kernel/master-keys.ts'
import type { Installation } from '../../src/startup/open.ts'
import type { Announcement } from '../../src/store/delivery/announcements.ts'
import { createHints, type Hint, type Hints } from '../../src/webhooks/hints.ts'
import { createInstallation } from '../support/installation.ts'
import { until } from './support/delivery-test.ts'

const key = randomBytes(32)
let installation: Installation
/** All that is said on the channel, as anybody hears it who may connect. */
let overheard: string[] = []

beforeAll(async () => {
  installation = await createInstallation()
  await installation.db.listen('keyhook_wake', (payload) => void overheard.push(payload))
})
afterAll(() => installation.close())
beforeEach(() => {
  overheard = []
})

const announcement = (body = '{"secret":"rosebud"}', laneIds = [1, 2]): Announcement => {
  const event = { id: 'evt_1', type: 'database.created' as const, body, seq: 7, publishedAtMs: 1, laneIds }
  return { orgId: 'org_one' as OrgId, server: '1', events: [event] }
}

/** A process that gives hints, or hears them. `takes`: whether it sees to all of one by itself. `aheadMs`: what its clock is ahead. */
async function processWith(
  keys: readonly [Buffer, ...Buffer[]],
  { takes = (_nth: number): boolean => false, aheadMs = 0, notifyMsMin = 2 } = {},
): Promise<{ hints: Hints; heard: Hint[] }> {
  const hints = createHints({
    db: installation.db,
    masterKeys: createMasterKeys(keys),
    onError() {},
    now: () => Date.now() + aheadMs,
    notifyMsMin,
  })
  const heard: Hint[] = []
  onTestFinished(hints.hear((hint) => takes(heard.push(hint))))
  onTestFinished(await hints.listen())
  return { hints, heard }
}

const plain: Hint = { kind: 'work', announcements: null }

test('what one process announces the others hear as it was said, and the process itself once', async () => {
  const here = await processWith([key])
  const there = await processWith([key])
  here.hints.give([announcement()])
  here.hints.give([announcement('{"n":2}')])
  const announced = () => there.heard.flatMap((hint) => (hint.kind === 'work' ? hint.announcements! : []))
  await until(() => announced().length === 2)
  // Each goes on a connection of its own, so either may come first.
  expect(new Set(announced())).toEqual(new Set([announcement(), announcement('{"n":2}')]))
  expect(here.heard).toHaveLength(2)
})

test('nobody else can read it', async () => {
  const { hints } = await processWith([key])
  hints.give([announcement()])
  await until(() => overheard.length > 0)
  const said = overheard.join() + Buffer.from(overheard.join(), 'base64').toString()
  for (const word of ['rosebud', 'evt_1', 'org_one', 'database']) expect(said).not.toContain(word)
})

test('a process with another master key hears that there is something, and one with an older key beside its own all of it', async () => {
  const { hints } = await processWith([key])
  const stranger = await processWith([randomBytes(32)])
  const renewed = await processWith([randomBytes(32), key])
  hints.give([announcement()])
  await until(() => stranger.heard.length > 0 && renewed.heard.length > 0)
  expect([stranger.heard, renewed.heard]).toEqual([[plain], [{ kind: 'work', announcements: [announcement()] }]])
})

test('what was changed on the way, or made up, is a plain hint, and so is what nodes of earlier versions say', async () => {
  const { hints } = await processWith([key])
  hints.give([announcement()])
  const [sealed] = await until(() => overheard.length > 0 && overheard)
  const { heard } = await processWith([key])
  const changed = `${sealed!.slice(0, -6)}${sealed!.at(-6) === 'A' ? 'B' : 'A'}${sealed!.slice(-5)}`
  const said = [
    '',
    'work',
    '.',
    '[]',
    changed,
    `${sealed!.split('.')[0]}.`,
    `x.${sealed!.split('.')[1]}`,
    '€'.repeat(2_000),
  ]
  for (const payload of said) await installation.db`select pg_notify('keyhook_wake', ${payload})`
  await until(() => heard.length === said.length)
  expect(heard).toEqual(said.map(() => plain))
  await installation.db`select pg_notify('keyhook_wake', 'held')`
  await until(() => heard.length > said.length)
  expect(heard.at(-1)).toEqual({ kind: 'held' })
})

test.each([
  [9_000, true],
  [11_000, false],
  [-11_000, false],
])('what was said %i ms ago is believed: %s', async (aheadMs, isBelieved) => {
  // Said again later it may be about other events: the database may have been restored since.
  const { hints } = await processWith([key])
  const { heard } = await processWith([key], { aheadMs })
  hints.give([announcement()])
  await until(() => heard.length === 1)
  expect(heard).toEqual([isBelieved ? { ...plain, announcements: [announcement()] } : plain])
})

test.each([
  ['too large to be said', [announcement('x'.repeat(8_000))]],
  ['too many', Array.from({ length: 90 }, () => announcement('{}', []))],
])('of announcements that are %s there is a plain hint', async (_what, announcements) => {
  const { hints, heard: here } = await processWith([key])
  const { heard } = await processWith([key])
  hints.give(announcements)
  await until(() => heard.length > 0)
  expect(heard).toEqual([plain])
  expect(here).toEqual([{ kind: 'work', announcements }])
})

test('where something is not announced others are told no part, for it would stand for all', async () => {
  const { hints } = await processWith([key], { notifyMsMin: 500 })
  const { heard } = await processWith([key])
  hints.give([announcement()])
  // Within the moment in which it gathers.
  hints.give([announcement()])
  hints.give()
  hints.give([announcement()])
  await until(() => heard.length === 2)
  expect(new Set(heard)).toEqual(new Set([plain, { kind: 'work', announcements: [announcement()] }]))
})

test('what this process has seen to by itself is said to nobody else', async () => {
  const { hints } = await processWith([key], { takes: (nth) => nth === 1 })
  const { heard } = await processWith([key])
  hints.give([announcement('{"n":1}')])
  hints.give([announcement('{"n":2}')])
  await until(() => heard.length > 0)
  expect(heard).toEqual([{ kind: 'work', announcements: [announcement('{"n":2}')] }])
})

test('while somebody who listens leaves much of it unread, there are plain hints', async () => {
  const { hints } = await processWith([key])
  const { heard } = await processWith([key])
  const deaf = connect(installation.target, { name: 'deaf', connectionsMax: 1 })
  onTestFinished(() => deaf.end())
  await deaf`listen noise`
  // As long as its transaction is open it reads nothing.
  await deaf.begin(async (tx) => {
    await tx`select 1`
    await installation.db`select pg_notify('noise', n || repeat('x', 7900)) from generate_series(1, 1200) n`
    hints.give([announcement()])
    await until(() => heard.length > 0)
  })
  expect(heard).toEqual([plain])
})
