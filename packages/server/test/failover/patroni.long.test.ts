import { expect, test } from 'vitest'
import { until } from '../kit/until.ts'
import { type Member, missingPrograms, startPatroniCluster } from './support/patroni.ts'
import { runFailover } from './support/run-failover.ts'

const why = missingPrograms.length === 0 ? '' : ` (skipped: not installed: ${missingPrograms.join(', ')})`

test.skipIf(why !== '')(
  `Patroni replaces a primary that is gone: no accepted event is lost, no revoked key is accepted${why}`,
  { timeout: 900_000 },
  async () => {
    const cluster = await startPatroniCluster()
    let old: Member | undefined
    const violations = await runFailover({
      name: 'Patroni',
      url: cluster.url,
      current: async () => cluster.target,
      async fail() {
        old = await cluster.primary()
        const killedAtMs = performance.now()
        await old.kill()
        const promoted = await cluster.primary()
        const promotedAtMs = performance.now()
        expect(promoted.name).not.toBe(old.name)
        console.log(`Patroni: promoted ${Math.round(promotedAtMs - killedAtMs)} ms after the kill`)
        // The machine comes back while the load goes on.
        old.start()
        return { promotedAtMs }
      },
      async afterwards() {
        // The old primary is a member again, and there is one primary.
        await until(async () => (await old!.state())?.state === 'running')
        expect(await cluster.primary()).toBeDefined()
      },
    })
    expect(violations).toEqual([])
  },
)
