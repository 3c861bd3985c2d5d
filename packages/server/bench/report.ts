import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { signOperatorTokens } from '../src/compose/operator-routes.ts'
import { connect } from '../src/db/database.ts'
import { operator } from '../src/domain/audit.ts'
import { openEmbedded } from '../src/embedded/index.ts'
import { createMasterKeys } from '../src/kernel/master-keys.ts'
import { issueOperatorToken } from '../src/operator/tokens.ts'
import { migrate, readMigrations } from '../src/store/migrate.ts'
import { startChild } from './child.ts'
import { addOrganization, type Fillable } from './deliver-world.ts'
import { createLoad } from './load.ts'
import { median } from './median.ts'

const turns = Number(process.env.BENCH_TURNS ?? 7)
const manyOrganizations = 32
const path = '/operator/v1/events'

/**
 * How fast events are accepted, each in its own request, with a delivery for one webhook: of one organization, whose
 * publishers wait for each other, and of many. Compared with bare Fastify and one insert per event, without any checks.
 */
export async function benchReport(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  const target = embedded.connection
  const db = connect(target, { name: 'bench', connectionsMax: 2 })
  const masterKeys = createMasterKeys([Buffer.alloc(32)])
  const world: Fillable = { db, masterKeys, url: 'https://example.com' }
  await migrate(db, await readMigrations())
  const organizations: string[] = []
  for (let n = 0; n < manyOrganizations; n++) organizations.push(await addOrganization(world, 1, '/w'))
  const servers = {
    bare: await startChild(new URL('intake-server.ts', import.meta.url), { target }),
    api: await startChild(new URL('api-server.ts', import.meta.url), { target }),
  }
  try {
    const issue = { name: 'bench', ttlSeconds: 3_600 }
    const { token } = await db.begin((tx) => issueOperatorToken(tx, signOperatorTokens(masterKeys), operator, issue))
    const requests = organizations.map((id) => ({ token, body: eventOf(id) }))
    const load = createLoad({ connections: 32, seconds: 3 })
    console.log(`${load.client}; ${turns} turns a side, in turns`)
    const results: { bare: number; one: number; many: number }[] = []
    for (let turn = -2; turn < turns; turn++) {
      const bare = await load.requestsPerSecond(servers.bare.url + path, requests)
      const one = await load.requestsPerSecond(servers.api.url + path, requests.slice(0, 1))
      const many = await load.requestsPerSecond(servers.api.url + path, requests)
      if (turn >= 0) results.push({ bare, one, many })
    }
    const rate = (side: 'bare' | 'one' | 'many') => Math.round(median(results.map((result) => result[side])))
    const ratio = (side: 'one' | 'many') => median(results.map((result) => result[side] / result.bare)).toFixed(2)
    console.log(`bare Fastify with an insert for each: ${rate('bare')}/s`)
    console.log(`events of one organization: ${rate('one')}/s, ratio ${ratio('one')}`)
    console.log(`events of ${manyOrganizations} organizations: ${rate('many')}/s, ratio ${ratio('many')}`)
  } finally {
    for (const server of Object.values(servers)) await server.stop()
    await db.end()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

export const eventOf = (organizationId: string): string =>
  JSON.stringify({
    organization_id: organizationId,
    type: 'database.created',
    data: { database_id: 'db_01h455vb4pex5vsknk084sn02q', name: 'x'.repeat(130) },
  })
