import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createHeartbeat } from '../../src/databases/dead-nodes.ts'
import { createInstallation } from '../kit/installation.ts'

// Without the check the steady time was minus one hour, and no node was declared dead until the hour had passed.
test('a clock that was ahead and was set back does not stop the detection of dead nodes', async () => {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  vi.useFakeTimers({ toFake: ['Date'], shouldAdvanceTime: true })
  onTestFinished(() => void vi.useRealTimers())
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const heartbeat = createHeartbeat({
    db: installation.db,
    node: 'a',
    announcement: () => ({
      databasesMax: 1,
      prices: { currency: 'EUR', hourPriceMinor: 1 },
      host: 'localhost',
      store: null,
      up: null,
    }),
    signal: ending.signal,
    onReturn() {},
    onForgotten() {},
    log: pino({ enabled: false }),
  })
  const seenAt = async () => (await installation.db`select seen_at from keyhook.nodes where id = 'a'`)[0]!.seen_at
  const nextHeartbeat = async () => {
    const before = await seenAt()
    await expect.poll(seenAt).not.toEqual(before)
  }
  await heartbeat.start()
  const hourMs = 3_600_000
  vi.setSystemTime(Date.now() + hourMs)
  await nextHeartbeat()
  vi.setSystemTime(Date.now() - hourMs)
  await expect.poll(() => heartbeat.steadySeconds()).toBeGreaterThan(0)
})
