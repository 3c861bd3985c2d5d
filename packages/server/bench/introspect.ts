import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { operator } from '../src/access/audit.ts'
import { signOperatorTokens } from '../src/compose/routes.ts'
import { connect } from '../src/db/database.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { mintApiKey } from '../src/lib/secrets.ts'
import { issueOperatorToken } from '../src/operator/token-routes.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { type Child, startChild } from './child.ts'
import { createLoad } from './load.ts'
import { median } from './median.ts'
import { fillWithKeys } from './stored-keys.ts'

const usedKeys = 1_000
const storedKeys = 100_000
const turns = Number(process.env.BENCH_TURNS ?? 7)
const warmUpTurns = 2
const path = '/operator/v1/introspect'

/**
 * What introspection costs: POST /operator/v1/introspect with the keys of a customer, of one key and of many in turn, against bare
 * Fastify that parses the same request and answers the same bytes. Each call looks up two tokens: the operator's and the key.
 */
export async function benchIntrospect(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  const embedded = await openEmbedded({ dataDir, purpose: 'serve', note: console.log })
  const children: Child[] = []
  const start = async (script: string, settings: object): Promise<Child> => {
    const child = await startChild(new URL(script, import.meta.url), settings)
    children.push(child)
    return child
  }
  try {
    const keys = Array.from({ length: usedKeys }, () => mintApiKey('kh'))
    const target = await fillWithKeys(embedded.connection, 'introspection', keys, storedKeys)
    const token = await issueToken(target)
    const requests = keys.map(({ apiKey }) => ({ token, body: JSON.stringify({ token: apiKey }) }))
    const api = await start('api-server.ts', { target })
    const body = await answerTo(api.url + path, requests[0]!)
    const bare = await start('bare-server.ts', { body, path })
    const load = createLoad({ connections: 64, seconds: 3 })
    console.log(`${load.client}; ${turns} turns a side, in turns; ${body.length} bytes an answer`)
    const results: { bare: number; one: number; many: number }[] = []
    for (let turn = -warmUpTurns; turn < turns; turn++) {
      const measured = {
        bare: await load.requestsPerSecond(bare.url + path, requests),
        one: await load.requestsPerSecond(api.url + path, requests.slice(0, 1)),
        many: await load.requestsPerSecond(api.url + path, requests),
      }
      if (turn >= 0) results.push(measured)
    }
    report(results)
  } finally {
    for (const child of children) await child.stop()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** For the master key of `api-server.ts`. */
async function issueToken(target: Parameters<typeof connect>[0]): Promise<string> {
  const db = connect(target, { name: 'bench', connectionsMax: 1 })
  const sign = signOperatorTokens(createMasterKeys([Buffer.alloc(32)]))
  const request = { name: 'bench', ttlSeconds: 3_600 }
  const { token } = await db.begin((tx) => issueOperatorToken(tx, sign, operator, request))
  await db.end()
  return token
}

async function answerTo(url: string, { token, body }: { token: string; body: string }): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return (await fetch(url, { method: 'POST', headers, body })).text()
}

function report(results: readonly { bare: number; one: number; many: number }[]): void {
  const rate = (side: 'bare' | 'one' | 'many') =>
    `${Math.round(median(results.map((turn) => turn[side]))).toLocaleString('en')}/s`
  const ratio = (side: 'one' | 'many') => median(results.map((turn) => turn[side] / turn.bare)).toFixed(3)
  console.log(`bare Fastify ${rate('bare')}`)
  console.log(`introspection of one key: ${rate('one')}, ratio ${ratio('one')}`)
  console.log(`of ${usedKeys.toLocaleString('en')} keys in turn: ${rate('many')}, ratio ${ratio('many')}`)
}
