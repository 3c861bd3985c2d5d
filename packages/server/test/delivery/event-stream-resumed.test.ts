import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createTransact } from '../../src/db/database.ts'
import type { EventType } from '../../src/delivery/events.ts'
import { createHints } from '../../src/delivery/hints.ts'
import { publishEvents, publishSampleEvent } from '../../src/delivery/publish.ts'
import { newId } from '../../src/lib/ids.ts'
import { openStream } from '../http/support/event-stream.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { until } from '../kit/until.ts'

const api = ownedApi()
const eventsMin = 600
const types: EventType[] = ['database.created', 'invoice.paid', 'backup.failed']

/** A node that is stopped and started again while the test runs. */
function restartedNode() {
  let node: { url: string; close(): Promise<void> } | null = null
  const start = async () => {
    const started = apiAlone(api)
    node = { url: await started.app.listen({ host: '127.0.0.1', port: 0 }), close: started.close }
  }
  return {
    start,
    url: () => node?.url ?? null,
    async restart() {
      const before = node
      node = null
      await before?.close()
      await start()
    },
    stop: async () => node?.close(),
  }
}

/** Events of several publishers at once, with transactions that roll back and test events between them. */
async function publishUnderLoad(isOver: () => boolean): Promise<void> {
  const { orgId, owner } = api
  const token = owner.token
  const webhooks = `${api.url}/api/v1/organizations/${orgId}/webhooks`
  const body = { url: 'https://example.com/', event_types: ['invoice.paid'] }
  const webhook = (await call<{ id: `wh_${string}` }>(webhooks, { token, body })).body
  const hints = createHints({ db: api.db, onError() {} })
  const transact = createTransact(api.db, hints.give)
  const eventOf = (type: EventType) => ({ id: newId('evt'), type, body: '{}' })
  async function publisher(): Promise<void> {
    while (!isOver()) {
      const count = Math.ceil(Math.random() * 5)
      const events = Array.from({ length: count }, (_, i) => eventOf(types[i % types.length]!))
      const work = transact(async (tx) => {
        await publishEvents(tx, orgId, events)
        if (Math.random() < 0.1) throw new Error('rolled back')
        if (Math.random() < 0.1) await publishSampleEvent(tx, orgId, webhook.id as never, eventOf('invoice.paid'))
        // A lost hint now and then: the poll finds those.
        if (Math.random() < 0.8) tx.hintAfterCommit(orgId)
      })
      await work.catch((error: Error) => expect(error.message).toBe('rolled back'))
      await sleep(5)
    }
  }
  await Promise.all([publisher(), publisher(), publisher()])
}

test('a reader that disconnects at random, of nodes that stop, gets every event once and in order', async () => {
  const [first, second] = [restartedNode(), restartedNode()]
  await Promise.all([first.start(), second.start()])
  onTestFinished(async () => void (await Promise.all([first.stop(), second.stop()])))
  let isOver = false
  const publishing = publishUnderLoad(() => isOver)
  const restarting = (async () => {
    for (const node of [first, second, first]) {
      await sleep(500)
      await node.restart()
    }
  })()
  const got: number[] = []
  let position = 0
  let connections = 0
  while (got.length < eventsMin || connections <= 5) {
    const url = (connections++ % 2 === 0 ? first : second).url()
    if (url === null) {
      await sleep(5)
      continue
    }
    const where = `${url}/platform/v1/organizations/${api.orgId}/events/stream`
    const stream = await openStream(where, api.owner.token, { 'last-event-id': String(position) }).catch(() => null)
    if (stream?.response.status !== 200) continue
    await Promise.race([stream.ended, sleep(Math.random() * 200)])
    stream.abort()
    await stream.ended
    const numbers = stream.numbers() as number[]
    got.push(...numbers)
    position = numbers.at(-1) ?? position
  }
  isOver = true
  await Promise.all([publishing, restarting])
  const rest = await openStream(
    `${api.url}/platform/v1/organizations/${api.orgId}/events/stream?after=${position}`,
    api.owner.token,
  )
  const [counter] =
    await api.db`select last_sequence::int as last from keyhook.event_counters where org_id = ${api.orgId}`
  await until(() => (rest.numbers().at(-1) ?? position) === counter!.last)
  got.push(...(rest.numbers() as number[]))
  expect(connections).toBeGreaterThan(5)
  expect(got).toEqual(Array.from({ length: counter!.last }, (_, i) => i + 1))
})
