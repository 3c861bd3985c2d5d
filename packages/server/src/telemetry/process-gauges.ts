import { Gauge, type Registry } from 'prom-client'
import type { Database } from '../db/database.ts'

/** Values with their labels; none where there is nothing to report. */
export type Samples = readonly (readonly [labels: Record<string, string>, value: number])[]

type About = { name: string; help: string; labelNames?: readonly string[] }

/** A gauge that is read when metrics are collected. */
export const addGauge = (
  registry: Registry,
  { name, help, labelNames = [] }: About,
  read: () => Samples | Promise<Samples>,
): Gauge =>
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    async collect() {
      const samples = await read()
      // Also removes what is no more, such as a state without jobs.
      this.reset()
      if (samples.length === 0 && labelNames.length === 0) this.remove()
      for (const [labels, value] of samples) this.set(labels, value)
    },
  })

const roles = ['api', 'dispatcher', 'jobs'] as const

/** What this process is, and how busy its connections to PostgreSQL are. */
export function createProcessGauges(registry: Registry) {
  let build: Samples = []
  let running: Samples = []
  const pools: Database[] = []
  const add = (name: string, help: string, labelNames: string[], read: () => Samples) =>
    addGauge(registry, { name: `keyhook_${name}`, help, labelNames }, read)
  const ofPools = (samples: (usage: ReturnType<Database['usage']>) => Samples) => () =>
    pools.flatMap((pool) => samples(pool.usage()))
  add('build_info', 'Always 1. The label has the version of Keyhook.', ['version'], () => build)
  add('role', '1 for each role that this process runs (api, dispatcher, jobs), otherwise 0.', ['role'], () => running)
  add(
    'db_pool_connections',
    "Number of connections of this process to Keyhook's PostgreSQL by pool (serve, access, intake, dispatcher) and state (busy, idle).",
    ['pool', 'state'],
    ofPools(({ name: pool, open, idle }) => [
      [{ pool, state: 'busy' }, open - idle],
      [{ pool, state: 'idle' }, idle],
    ]),
  )
  add(
    'db_pool_connections_max',
    'Largest number of connections that a pool may open.',
    ['pool'],
    ofPools(({ name: pool, connectionsMax }) => [[{ pool }, connectionsMax]]),
  )
  add(
    'db_pool_waiting',
    'Number of statements that wait for a free connection of the pool.',
    ['pool'],
    ofPools(({ name: pool, waiting }) => [[{ pool }, waiting]]),
  )
  return {
    describeProcess(version: string, own: readonly string[]) {
      build = [[{ version }, 1]]
      running = roles.map((role) => [{ role }, own.includes(role) ? 1 : 0])
    },
    watchPools(added: readonly Database[]) {
      pools.push(...added)
    },
  }
}
