import { Gauge, type Registry } from 'prom-client'
import type { Database } from '../db/database.ts'

const roles = ['api', 'dispatcher', 'jobs'] as const

/** What this process is, and how busy its connections to PostgreSQL are. */
export function createProcessGauges(registry: Registry) {
  const registers = [registry]
  const build = new Gauge({
    name: 'keyhook_build_info',
    help: 'Always 1. The label has the version of Keyhook.',
    labelNames: ['version'],
    registers,
  })
  const role = new Gauge({
    name: 'keyhook_role',
    help: '1 for each role that this process runs (api, dispatcher, jobs), otherwise 0.',
    labelNames: ['role'],
    registers,
  })
  const pools: Database[] = []
  const connections = new Gauge({
    name: 'keyhook_db_pool_connections',
    help: "Number of connections of this process to Keyhook's PostgreSQL by pool (serve, access, intake, dispatcher) and state (busy, idle).",
    labelNames: ['pool', 'state'],
    registers,
    collect() {
      for (const { name, open, idle } of pools.map((pool) => pool.usage())) {
        this.set({ pool: name, state: 'busy' }, open - idle)
        this.set({ pool: name, state: 'idle' }, idle)
      }
    },
  })
  new Gauge({
    name: 'keyhook_db_pool_connections_max',
    help: 'Largest number of connections that a pool may open.',
    labelNames: ['pool'],
    registers,
    collect() {
      for (const pool of pools) this.set({ pool: pool.usage().name }, pool.usage().connectionsMax)
    },
  })
  new Gauge({
    name: 'keyhook_db_pool_waiting',
    help: 'Number of statements that wait for a free connection of the pool.',
    labelNames: ['pool'],
    registers,
    collect() {
      for (const pool of pools) this.set({ pool: pool.usage().name }, pool.usage().waiting)
    },
  })
  return {
    describeProcess(version: string, running: readonly string[]) {
      build.set({ version }, 1)
      for (const one of roles) role.set({ role: one }, running.includes(one) ? 1 : 0)
    },
    watchPools(added: readonly Database[]) {
      pools.push(...added)
      connections.reset()
    },
  }
}
