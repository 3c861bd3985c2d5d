import { expect, test, vi } from 'vitest'
import { createSenders } from '../../../src/delivery/sender/senders.ts'
import { createMasterKeys } from '../../../src/lib/master-keys.ts'
import { receiverFor } from '../support/receiver.ts'
import { limits, sendersForTest, sendWith } from '../support/sender.ts'

test('a lane that is leased again finds its connection open', async () => {
  const receiver = await receiverFor()
  const senders = sendersForTest()
  const webhook = { laneId: 1, webhookId: 'wh_1' } as const
  for (let i = 0; i < 3; i++) await sendWith(senders.open(receiver.url, webhook))
  expect([receiver.connections, receiver.received.length]).toEqual([1, 3])
})

test('a lane number that a failover gave to another webhook reaches the other receiver', async () => {
  const senders = sendersForTest()
  const [lost, current] = [await receiverFor(), await receiverFor()]
  await sendWith(senders.open(lost.url, { laneId: 1, webhookId: 'wh_lost' }))
  await sendWith(senders.open(current.url, { laneId: 1, webhookId: 'wh_current' }))
  expect([lost.received.length, current.received.length]).toEqual([1, 1])
})

test('a sender that was idle for minutes opens one connection and reuses it', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const receiver = await receiverFor()
  let nowMs = 0
  const senders = sendersForTest({ now: () => nowMs })
  const sender = senders.open(receiver.url)
  try {
    await sendWith(sender)
    await sendWith(sender)
    expect(receiver.connections).toBe(1)
    nowMs = 120_000
    vi.advanceTimersByTime(120_000)
    for (let i = 0; i < 5; i++) await sendWith(sender)
    expect(receiver.connections).toBe(2)
  } finally {
    senders.close()
    vi.useRealTimers()
  }
})

test('a webhook whose secret no master key opens has no sender, and is reported', () => {
  const unreadable: string[] = []
  const senders = createSenders({
    masterKeys: createMasterKeys([Buffer.alloc(32, 1)]),
    settings: { serviceName: 'Service', standardWebhooks: true, allowNetworks: [], extraCa: null, limits },
    now: Date.now,
    onUnreadable: ({ webhookId }) => void unreadable.push(webhookId),
  })
  const secret = createMasterKeys([Buffer.alloc(32, 2)]).seal('whsec_', 'wh_1')
  const target = {
    laneId: 1,
    orgId: 'org_1',
    webhookId: 'wh_1',
    version: 0,
    rotation: null,
    url: 'https://example.com/',
  } as const
  expect(senders.open({ ...target, secret })).toBeNull()
  expect(unreadable).toEqual(['wh_1'])
  senders.close()
})
