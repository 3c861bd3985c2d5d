import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mintApiKey } from '../src/lib/secrets.ts'
import { openEmbedded } from '../src/postgres/index.ts'
import { type Child, startChild } from './child.ts'
import { createLoad, type Load, type Request } from './load.ts'
import { median } from './median.ts'
import { fillWithKeys } from './stored-keys.ts'

const usedKeys = Number(process.env.BENCH_KEYS ?? 500)
const turns = Number(process.env.BENCH_TURNS ?? 9)
/** Until V8 has compiled both sides; its compiler threads use a tenth of a core before. */
const warmUpTurns = 4
const path = '/api/v1/organizations'

/**
 * What authentication costs: GET /api/v1/organizations with an API key, against bare Fastify with the same bytes. Keyhook
 * runs twice, on a database of 100,000 keys and on one of a million, and each with one key and with 500 in turn.
 * All sides run in turns, so that other load on the machine affects all of them.
 */
export async function benchAuth(): Promise<void> {
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
    const everyKey = keys.map((key) => ({ token: key.apiKey }))
    const oneKey = everyKey.slice(0, 1)
    const few = await fillWithKeys(embedded.connection, 'few', keys, 100_000)
    const many = await fillWithKeys(embedded.connection, 'many', keys, 1_000_000)
    const limited = await fillWithKeys(embedded.connection, 'limited', keys, 100_000, { restricted: true })
    const api = {
      limited: await start('api-server.ts', { target: limited }),
      few: await start('api-server.ts', { target: few }),
      many: await start('api-server.ts', { target: many }),
    }
    const sample = await fetch(api.few.url + path, { headers: { authorization: `Bearer ${keys[0]!.apiKey}` } })
    const body = await sample.text()
    const bare = await start('bare-server.ts', { body })
    const tick = await start('tick-server.ts', { body, target: few })
    const lookUp = await start('look-up-server.ts', { body, target: few })
    const load = createLoad({ connections: 64, seconds: 3 })
    console.log(`${load.client}; ${turns} turns a side, in turns`)
    report(
      await takeTurns(load, {
        bare: { ...bare, requests: everyKey },
        tick: { ...tick, requests: oneKey },
        few: { ...api.few, requests: oneKey },
        many: { ...api.many, requests: oneKey },
        lookUp: { ...lookUp, requests: everyKey },
        fewMixed: { ...api.few, requests: everyKey },
        manyMixed: { ...api.many, requests: everyKey },
        limited: { ...api.limited, requests: everyKey },
      }),
    )
  } finally {
    for (const child of children) await child.stop()
    await embedded.stop()
    await rm(await realpath(join(dataDir, 'postgres')), { recursive: true, force: true })
    await rm(dataDir, { recursive: true, force: true })
  }
}

type Side = 'bare' | 'tick' | 'few' | 'many' | 'lookUp' | 'fewMixed' | 'manyMixed' | 'limited'
type Turn = Record<Side, number>

async function takeTurns(
  load: Load,
  sides: Record<Side, { url: string; requests: readonly Request[] }>,
): Promise<Turn[]> {
  const results: Turn[] = []
  for (let turn = -warmUpTurns; turn < turns; turn++) {
    const rates: [string, number][] = []
    for (const [side, { url, requests }] of Object.entries(sides))
      rates.push([side, await load.requestsPerSecond(url + path, requests)])
    if (turn >= 0) results.push(Object.fromEntries(rates) as Turn)
  }
  return results
}

function report(results: readonly Turn[]): void {
  const rate = (side: Side) => `${Math.round(median(results.map((turn) => turn[side]))).toLocaleString('en')}/s`
  const ratio = (side: Side, to: Side) => median(results.map((turn) => turn[side] / turn[to])).toFixed(3)
  console.log(`bare Fastify ${rate('bare')}`)
  console.log(
    `with an empty statement a tick ${rate('tick')}, ratio ${ratio('tick', 'bare')}: the limit of asking at all`,
  )
  console.log(
    `Keyhook with an API key, 100,000 stored: ${rate('few')}, ratio ${ratio('few', 'bare')} (bar 0.80, goal 0.90)`,
  )
  console.log(`the same, 1,000,000 stored: ${rate('many')}, over 100,000 ${ratio('many', 'few')} (bar 0.95)`)
  console.log(
    `And with ${usedKeys.toLocaleString('en')} keys in turn, so that hardly two requests of a moment show the same:`,
  )
  console.log(
    `every key found and nothing else ${rate('lookUp')}, ratio ${ratio('lookUp', 'bare')}: the limit of the rule that nothing is kept`,
  )
  console.log(
    `Keyhook, 100,000 stored: ${rate('fewMixed')}, ratio ${ratio('fewMixed', 'bare')}, over that limit ${ratio('fewMixed', 'lookUp')}`,
  )
  console.log(`the same, 1,000,000 stored: ${rate('manyMixed')}, over 100,000 ${ratio('manyMixed', 'fewMixed')}`)
  console.log(
    `Restricted keys, 100,000 stored: ${rate('limited')}, over unrestricted ${ratio('limited', 'fewMixed')} (bar 0.85)`,
  )
}
