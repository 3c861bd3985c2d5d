import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { startApiForTest } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { someIds, startLimited, startLimits, withinOneMinute } from './support/request-limits.ts'

test('two nodes approach one limit: the excess is at most what the other admits within two seconds', async () => {
  const { api, create } = await startLimited({ KEYHOOK_KEY_REQUESTS_PER_MINUTE_MAX: '150' })
  const second = apiAlone(api)
  const url = await second.app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => second.close())
  const { api_key: key } = await create()
  await withinOneMinute(api.db, 7)
  const perSecond = 35
  const end = performance.now() + 5_000
  const admitted = await Promise.all(
    [api.url, url].map(async (node) => {
      let count = 0
      for (let next = performance.now(); next < end; next += 1_000 / perSecond) {
        await sleep(Math.max(0, next - performance.now()))
        const { status } = await call(`${node}/api/v1/organizations`, { token: key })
        if (status === 200) count += 1
      }
      return count
    }),
  )
  const total = admitted[0]! + admitted[1]!
  expect(total).toBeGreaterThanOrEqual(150)
  // A statement may take a while on a busy machine: half a second for it.
  expect(total).toBeLessThanOrEqual(150 + 2.5 * perSecond)
  // And not twice the limit, which each would admit on its own: 175 each.
  expect(Math.min(...admitted)).toBeLessThan(150)
})

test('a node that begins later soon knows what another has counted', async () => {
  const api = await startApiForTest()
  const [orgId, keyId] = someIds()
  await withinOneMinute(api.db, 10)
  const first = startLimits(api, { perKey: 100 })
  const admitted = Array.from({ length: 150 }, () => first(orgId, keyId)).filter(Boolean)
  expect(admitted).toHaveLength(100)
  await until(async () => (await api.db`select from keyhook.request_counts where count = 100`).length)
  const second = startLimits(api, { perKey: 100 })
  expect(second(orgId, keyId)).toBe(true)
  await until(() => !second(orgId, keyId))
  expect(first(orgId, keyId)).toBe(false)
})
