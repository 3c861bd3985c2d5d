import { expect, onTestFinished, test } from 'vitest'
import { begin, leasedLane, settleFailed } from '../delivery/support/leased-lane.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { until } from '../kit/until.ts'

test.each(['ends', 'hangs'])(
  'the deletion of a webhook waits for an attempt in flight, but not for long (the attempt %s)',
  async (how) => {
    const { world, db, webhook, first } = await leasedLane()
    const api = apiAlone(world)
    onTestFinished(() => api.close())
    const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
    await begin(db, first)
    let isAnswered = false
    const path = `/api/v1/organizations/${world.orgId}/webhooks/${webhook.id}`
    const deletion = call(`${url}${path}`, { method: 'DELETE', token: world.owner.token }).finally(() => {
      isAnswered = true
    })
    await until(async () => (await db`select from keyhook.lanes where ended_at is not null`).length === 1)
    expect(isAnswered).toBe(false)
    if (how === 'ends') expect(await settleFailed(db, first)).toBe(1)
    expect((await deletion).status).toBe(204)
    // The outcome of a deleted webhook's attempt is recorded, and nothing is tried again.
    if (how === 'hangs') expect(await settleFailed(db, first)).toBe(1)
    expect(await world.attempts()).toMatchObject([{ status: 'failed', next_attempt_at: null }])
    expect(await db`select from keyhook.retries`).toHaveLength(0)
  },
)
