import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Peer } from './deliver-peer.ts'
import type { Request } from './load.ts'
import { now } from './now.ts'

export type Latency = { p50: number; p99: number }

/** Publishes at a steady pace for a few seconds, and tells how long after its request each event arrived at the receiver. */
export async function postAtPace(
  receiver: Peer,
  address: string,
  requests: readonly Request[],
  perSecond: number,
): Promise<Latency> {
  const url = new URL(address)
  const pool = new Pool(url.origin, { connections: 64 })
  const sentAt = new Map<string, number>()
  await receiver.ask({ ask: 'record' })
  const post = async ({ token, body }: Request) => {
    const at = now()
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const answer = await pool.request({ method: 'POST', path: url.pathname, headers, body: body! })
    if (answer.statusCode !== 202) throw new Error(`an event was answered ${answer.statusCode}`)
    sentAt.set(((await answer.body.json()) as { id: string }).id, at)
  }
  const begun = now()
  const posts: Promise<void>[] = []
  for (let i = 0; i < perSecond * 4; i++) {
    const earlyMs = begun + (i * 1_000) / perSecond - now()
    if (earlyMs > 0) await sleep(earlyMs)
    posts.push(post(requests[i % requests.length]!))
  }
  await Promise.all(posts)
  await sleep(1_000)
  const { arrivals } = await receiver.ask<{ arrivals: [string, number][] }>({ ask: 'arrivals' })
  await pool.close()
  // The first second opens connections and leases lanes.
  const counted = arrivals.filter(([id]) => (sentAt.get(id) ?? 0) > begun + 1_000)
  const ms = counted.map(([id, at]) => at - sentAt.get(id)!).sort((a, b) => a - b)
  if (ms.length < perSecond * 2.9) throw new Error(`only ${ms.length} events arrived`)
  return { p50: ms[Math.floor(ms.length / 2)]!, p99: ms[Math.floor(ms.length * 0.99)]! }
}
