import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createPresence } from '../../src/platform/presence.ts'
import { createInstallation } from '../support/installation.ts'

// Seen to fail without, with minus an hour: it would have judged nobody until the hour had passed.
test('a clock that was ahead for a while and was set back is no reason to judge nobody', async () => {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  vi.useFakeTimers({ toFake: ['Date'], shouldAdvanceTime: true })
  onTestFinished(() => void vi.useRealTimers())
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const presence = createPresence({
    db: installation.db,
    node: 'a',
    databasesMax: 1,
    prices: { currency: 'EUR', hourPriceMinor: 1 },
    signal: ending.signal,
    onReturn() {},
    log: pino({ enabled: false }),
  })
  await presence.begin()
  const hourMs = 3_600_000
  vi.setSystemTime(Date.now() + hourMs)
  await sleep(1_500)
  vi.setSystemTime(Date.now() - hourMs)
  await sleep(2_500)
  expect(presence.steadySeconds()).toBeGreaterThan(0)
})
