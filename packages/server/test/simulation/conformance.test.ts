import { expect, test } from 'vitest'
import { uuid7 } from '../../src/kernel/uuid7.ts'
import type { BegunAttempt } from '../../src/store/delivery/beginnings.ts'
import { freshMax } from '../../src/store/delivery/news.ts'
import { ensurePartitions } from '../../src/store/delivery/partitions.ts'
import { redeliver } from '../../src/store/delivery/redeliveries.ts'
import { deleteWebhook } from '../../src/store/webhooks.ts'
import { createDispatchStore } from '../../src/webhooks/dispatching/dispatch-store.ts'
import { deliveryTest, failedSilently } from '../webhooks/support/delivery-test.ts'
import { createModel } from './model.ts'
import { type Random, seededRandom } from './random.ts'

/*
 * The simulation is worth as much as its model of the database. Here the model and the real statements are told the same
 * things, in an order that is drawn from a seed, and have to say the same. Waits are nothing or for ever, so that no clock
 * decides.
 */

const forEver = 1_000_000_000
const steps = 400

type Held = {
  laneId: number
  tokens: { model: number; real: number }
  asked: number
  begunNo: number
  unsettled: Omit<BegunAttempt, 'token'>[]
}
type Begun = Omit<BegunAttempt, 'token'> & { tokens: Held['tokens'] }

test.each([1, 2, 3, 4, 5, 6])('the model of the database says what the database says (seed %i)', async (seed) => {
  const random = seededRandom(seed)
  const world = await deliveryTest()
  const store = createDispatchStore(world.db, 0)
  await ensurePartitions(world.db, Date.now())
  let ms = 1_700_000_000_000
  const model = createModel(() => ms++, freshMax)
  const orgs = [world.orgId, await world.organization('Other')]
  for (const org of orgs) {
    for (let i = 0; i < 3; i++) {
      await world.addWebhook('https://example.com/', { org })
      model.addLane(org)
    }
  }
  // Lanes are numbered as they are made, on both sides.
  const webhooks = await world.db<{ id: string; org_id: string; webhook_id: string }[]>`
    select id, org_id, webhook_id from keyhook.lanes order by id`
  expect(webhooks.map((lane) => Number(lane.id))).toEqual([...model.lanes.keys()])

  const held: Held[] = []
  const due: { laneId: number; eventSeq: number; attempts: number; tries: number }[] = []
  const begun: Begun[] = []

  /** Says it to both, and compares what both say of lanes and deliveries. */
  async function both<T>(what: string, real: Promise<T>, modelled: T, see: (answer: T) => unknown): Promise<T> {
    const answer = await real
    expect(sorted(see(modelled)), `${what} (seed ${seed})`).toEqual(sorted(see(answer)))
    return answer
  }
  const sidesOf = <H extends Held>(chosen: readonly H[], side: 'model' | 'real') =>
    chosen.map(({ tokens, ...rest }) => ({ ...rest, token: tokens[side] }))

  const acts: ((draw: Random) => Promise<unknown>)[] = [
    async (draw) => {
      const org = draw.pick(orgs)
      model.publish(org)
      await world.publishOne(org)
    },
    async (draw) => {
      const seen = new Map(draw.chance(0.5) ? [[draw.pick(orgs), draw.int(1, 6)]] : [])
      const owner = draw.pick(['a', 'b'])
      const modelled = model.statements.news(owner, seen)
      await both('news', store.news(owner, seen), modelled, ({ lanes, seen, ...rest }) => [
        ...lanes.map(({ fresh, ...lane }) => ({ ...lane, fresh: fresh.map((one) => one.eventSeq).join() })),
        { ...rest, seen: [...seen].sort().join() },
      ])
    },
    () => both('wake', store.wake(), model.statements.wake(), ({ lanes }) => lanes),
    async (draw) => {
      const exceptOrgs = draw.chance(0.2) ? [draw.pick(orgs)] : []
      const exceptLanes = draw.chance(0.2) ? [draw.pick([...model.lanes.keys()])] : []
      const request = {
        owner: draw.pick(['a', 'b']),
        lanesMax: 100,
        leaseMs: draw.chance(0.6) ? forEver : 0,
        exceptOrgs,
        exceptLanes,
      }
      const modelled = model.statements.lease(request)
      const real = await both('lease', store.lease(request), modelled, (lanes) =>
        lanes.map(({ laneId, cursorSeq, headSeq, asked, takenOver, webhook }) => {
          return { laneId, cursorSeq, headSeq, asked, takenOver, ended: webhook === null }
        }),
      )
      for (const { laneId, token, asked } of real) {
        const tokens = { real: token, model: modelled.find((lane) => lane.laneId === laneId)!.token }
        held.push({ laneId, tokens, asked, begunNo: 0, unsettled: [] })
      }
    },
    async () => {
      const lanes = held.map((lane) => ({ ...lane, orgId: model.lanes.get(lane.laneId)!.orgId }))
      const see = (left: { laneId: number; eventSeq: number; attemptId: string; attempts: number }[]) =>
        left.map(({ laneId, eventSeq, attemptId, attempts }) => ({ laneId, eventSeq, attemptId, attempts }))
      const modelled = model.statements.leftovers(sidesOf(lanes, 'model'))
      await both('leftovers', store.leftovers(sidesOf(lanes, 'real')), modelled, see)
    },
    async (draw) => {
      const { id, orgId, cursorSeq, headSeq } = draw.pick([...model.lanes.values()])
      const lane = { laneId: id, orgId, afterSeq: draw.chance(0.8) ? cursorSeq : 0, headSeq }
      const request = [{ ...lane, firstsMax: draw.int(0, 5), retriesMax: draw.pick([0, 100]) }]
      const found = await both('read', store.read(request), model.statements.read(request), (deliveries) =>
        deliveries.map(({ laneId, eventSeq, attempts, tries }) => ({ laneId, eventSeq, attempts, tries })),
      )
      due.push(...found)
    },
    async (draw) => {
      const delivery = due.pop()
      const isIts = (one: Held) => one.laneId === delivery?.laneId
      const lane = draw.chance(0.8) ? held.findLast(isIts) : held.find(isIts)
      if (delivery === undefined || lane === undefined) return
      const { laneId, eventSeq, attempts, tries } = delivery
      const attemptId = uuid7(Date.now())
      const { orgId } = model.lanes.get(laneId)!
      const attempt = {
        laneId,
        orgId,
        eventSeq,
        attempt: attempts + 1,
        tries,
        attemptId,
        startedAtMs: Date.now(),
        line: null,
      }
      // Now and then one is forgotten that is on its way, or the statement comes late: the database takes it as it is told.
      if (draw.chance(0.2)) lane.unsettled.pop()
      lane.begunNo += draw.pick([1, 1, 1, 0, -1])
      const one = { ...attempt, begunNo: lane.begunNo }
      lane.unsettled.push(one)
      // As if it had been announced, after this or after another: both have to see whether something is missing between them.
      const surmised = draw.chance(0.3) ? { afterSeq: draw.int(0, eventSeq), count: draw.int(1, 2) } : null
      const with_ = (token: number) => {
        const all = lane.unsettled.map((begun) => ({ ...begun, token }))
        return [{ laneId, token, no: lane.begunNo, fresh: all.slice(-1), unsettled: all, surmised }]
      }
      const modelled = model.statements.begin(with_(lane.tokens.model))
      await both('begin', store.begin(with_(lane.tokens.real)), modelled, (lanes) =>
        Array.from(lanes, ([laneId, tries]) => ({ laneId, tries: [...tries].join() })),
      )
      // As the dispatcher does.
      if (modelled.get(laneId) === 'gap') lane.unsettled.pop()
      begun.push({ ...one, tokens: lane.tokens })
    },
    async (draw) => {
      const settled = draw.chance(0.8) ? begun.pop() : begun.at(-1)
      if (settled === undefined) return
      const retryMs = draw.pick([null, 0, forEver])
      const { tries } = settled
      const with_ = (token: number) => [{ ...failedSilently, begun: { ...settled, token }, tries, retryMs }]
      const modelled = model.statements.settle(with_(settled.tokens.model))
      await both('settle', store.settle(with_(settled.tokens.real)), modelled, (count) => [count])
    },
    async (draw) => {
      const leaseMs = draw.pick([0, forEver])
      const modelled = model.statements.renew(sidesOf(held, 'model'), leaseMs)
      await both('renew', store.renew(sidesOf(held, 'real'), leaseMs), modelled, (lanes) => lanes)
    },
    async (draw) => {
      if (held.length === 0) return
      const { laneId, tokens } = draw.pick(held)
      const modelled = model.statements.isHeld({ laneId, token: tokens.model })
      await both('isHeld', store.isHeld({ laneId, token: tokens.real }), modelled, (isHeld) => [isHeld])
    },
    async (draw) => {
      const known = held.map((lane) => ({ ...lane, headSeq: draw.int(0, 3) }))
      const modelled = model.statements.peek(sidesOf(known, 'model'))
      await both('peek', store.peek(sidesOf(known, 'real')), modelled, (lanes) => lanes)
    },
    async (draw) => {
      if (held.length === 0) return
      const lane = { ...draw.pick(held), settled: draw.chance(0.5), abandon: draw.chance(0.3) }
      if (draw.chance(0.1)) lane.begunNo += 1
      const asked = draw.chance(0.7) ? model.lanes.get(lane.laneId)!.asked : lane.asked
      const modelled = model.statements.release(sidesOf([{ ...lane, asked }], 'model'))
      await both('release', store.release(sidesOf([{ ...lane, asked }], 'real')), modelled, (lanes) => lanes)
    },
    // Somebody else has the lock of a lane while all of the above is said.
    async (draw) => {
      if (draw.chance(0.5)) return
      const { id } = draw.pick([...model.lanes.values()])
      model.locked.add(id)
      await world.db.begin(async (tx) => {
        await tx`select from keyhook.lanes where id = ${id} for update`
        for (let i = 0; i < 4; i++) await draw.pick(aboutLanes)(draw)
      })
      model.locked.delete(id)
    },
    async (draw) => {
      if (model.attempts.size === 0) return
      const { laneId, eventSeq, attemptId } = draw.pick([...model.attempts.values()])
      const hook = webhooks.find((one) => Number(one.id) === laneId)!
      const real = world.db
        .begin(async (tx) => {
          const outcome = await redeliver(tx, orgOf(laneId), hook.webhook_id as never, attemptId)
          // As the route does: what was not asked for leaves no trace.
          if (outcome !== 'asked') throw new Error(outcome)
          return true
        })
        .catch(() => false)
      await both('redeliver', real, model.redeliver(laneId, eventSeq), (asked) => [asked])
    },
    async (draw) => {
      if (draw.chance(0.9)) return
      // Another server takes over: the leases that there are were given by one before it.
      model.standBy()()
      await world.db`update keyhook.lanes set lease_server = lease_server - interval '1 second'`
    },
    async (draw) => {
      if (draw.chance(0.9)) return
      const { id } = draw.pick([...model.lanes.values()])
      model.end(id)
      const hook = webhooks.find((one) => Number(one.id) === id)!
      await world.db.begin((tx) => deleteWebhook(tx, orgOf(id), hook.webhook_id as never))
    },
  ]
  const aboutLanes = acts.slice(0, -4)
  const orgOf = (laneId: number) => model.lanes.get(laneId)!.orgId

  for (let step = 0; step < steps; step++) {
    await random.pick(acts)(random)
    const rows = await world.db`
      select lane_id::int as lane, event_seq::int as seq, attempt, try from keyhook.retries`
    const onTheirWay = await world.db`
      select lane_id::int as lane, event_seq::int as seq, attempt, try, id from keyhook.sending`
    const lanes = await world.db`
      select id::int, head_seq::int as head, cursor_seq::int as cursor, asked, lease_owner is not null as held,
        due_at is not null as due, ended_at is not null as ended, begun_no::int as begun
      from keyhook.lanes`
    expect(sorted([...model.retries.values()].map(retryRow)), `retries after step ${step}`).toEqual(sorted(rows))
    const sending = [...model.lanes.keys()].flatMap(model.sendingOf)
    expect(sorted(sending.map(sendingRow)), `sending after step ${step}`).toEqual(sorted(onTheirWay))
    expect(sorted([...model.lanes.values()].map(laneRow)), `lanes after step ${step}`).toEqual(sorted(lanes))
  }
  expect(model.attempts.size).toBeGreaterThan(2)
})

type Rows<K extends 'lanes' | 'retries'> = ReturnType<typeof createModel>[K] extends Map<unknown, infer R> ? R : never

const retryRow = ({ laneId, eventSeq, attempt, tries }: Rows<'retries'>) => {
  return { lane: laneId, seq: eventSeq, attempt, try: tries }
}
const sendingRow = ({ laneId, eventSeq, attempt, tries, attemptId }: BegunAttempt) => {
  return { lane: laneId, seq: eventSeq, attempt, try: tries, id: attemptId }
}
const laneRow = ({ id, headSeq, cursorSeq, asked, owner, dueMs, ended, begunNo }: Rows<'lanes'>) => {
  return {
    id,
    head: headSeq,
    cursor: cursorSeq,
    asked,
    held: owner !== null,
    due: dueMs !== null,
    ended,
    begun: begunNo,
  }
}

/** Statements say nothing of the order in which they name lanes. */
const sorted = (rows: unknown) =>
  (rows as object[]).map((row) => (typeof row === 'object' ? JSON.stringify(row, Object.keys(row).sort()) : row)).sort()
