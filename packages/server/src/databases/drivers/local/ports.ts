import { createServer } from 'node:net'
import { join } from 'node:path'
import { createKeyedQueue } from '../../../lib/keyed-queue.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import { runTool } from '../../../postgres/start-program.ts'
import type { Home } from './home.ts'
import { instancesIn, readPort, writePort } from './instance-directory.ts'

/** A firewall that is loaded again removes our table. */
const repeatMs = 30_000

/**
 * Lets nobody but the account of a database send from its port, with nftables. Otherwise a program in the account of another one could take
 * the port while the server restarts, and ask clients for their passwords. One table for the machine: whoever starts a server on a port
 * replaces what a killed process left there.
 */
export function createPortGuard() {
  const protectedPorts = new Map<number, number>()
  let problem: string | null = 'no database was started yet'

  async function apply(statements: readonly string[]): Promise<void> {
    try {
      await nft([...table, ...statements])
      problem = null
    } catch (error) {
      problem = (error as Error).message
    }
  }
  const repeat = () => void apply([...protectedPorts].flatMap(protecting))
  let timer: NodeJS.Timeout | undefined

  return {
    /** By port: the uid of its database. Call it before the server starts: its port may be free now, and anyone may take it. */
    async protect(owners: ReadonlyMap<number, number>): Promise<void> {
      for (const [port, uid] of owners) protectedPorts.set(port, uid)
      timer ??= setInterval(repeat, repeatMs).unref()
      await apply([...owners].flatMap(protecting))
    },
    async release(port: number): Promise<void> {
      if (protectedPorts.delete(port)) await apply(releasing(port))
    },
    /** Why ports are not protected; null if they are. */
    problem: () => problem,
    async close(): Promise<void> {
      clearInterval(timer)
      const ports = [...protectedPorts.keys()]
      protectedPorts.clear()
      if (ports.length === 0) return
      await apply(ports.flatMap(releasing))
      await nft(removing).catch(() => {})
    },
  }
}

/** All statements or none. */
const nft = (statements: readonly string[]): Promise<unknown> =>
  runTool('nft', ['-f', '-'], { account: undefined, input: statements.join('\n') })

/** All statements may be repeated. A map, so that a packet costs the same with one database or a thousand. */
const table = [
  'add table inet keyhook',
  'add map inet keyhook ports { type inet_service : verdict; }',
  'add chain inet keyhook output { type filter hook output priority 0; }',
  'flush chain inet keyhook output',
  'add rule inet keyhook output tcp sport vmap @ports',
  'add chain inet keyhook others',
  'flush chain inet keyhook others',
  'add rule inet keyhook others drop',
]

/** Fails while a port is protected by another process: its rule uses the chain. */
const removing = ['delete chain inet keyhook others', 'delete table inet keyhook']

const adding = (port: number): string[] => [
  `add chain inet keyhook port-${port}`,
  `flush chain inet keyhook port-${port}`,
  `add element inet keyhook ports { ${port} : jump port-${port} }`,
]

const protecting = ([port, uid]: readonly [number, number]): string[] => [
  ...adding(port),
  `add rule inet keyhook port-${port} meta skuid != ${uid} goto others`,
]

/** Added first: what does not exist cannot be deleted. */
const releasing = (port: number): string[] => [
  ...adding(port),
  `delete element inet keyhook ports { ${port} }`,
  `delete chain inet keyhook port-${port}`,
]

export type PortRange = { first: number; last: number }

/** Gives each instance a port that it keeps. One request at a time, or two could get the same port. */
export function createPorts(deps: { home: Home; host: string; range: PortRange }) {
  const requests = createKeyedQueue()

  async function take(directory: string): Promise<number> {
    const kept = await readPort(directory)
    if (kept !== null) return kept
    const taken = new Set<number | null>()
    for (const id of await instancesIn(deps.home)) taken.add(await readPort(join(deps.home.path, id)))
    for (let port = deps.range.first; port <= deps.range.last; port++) {
      if (taken.has(port) || !(await isFree(deps.host, port))) continue
      await writePort(directory, port)
      return port
    }
    throw new StepFailure('No port is free for it on its node.', { permanent: true })
  }

  return {
    portFor: (directory: string): Promise<number> => requests.run('port', () => take(directory)),
  }
}

/** Another program of this machine may use the port. */
function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const probe = createServer()
    probe.once('error', () => done(false))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => done(true)))
  })
}
