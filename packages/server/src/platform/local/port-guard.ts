import { runTool } from '../../embedded/tool.ts'

/** A firewall that is loaded again removes our table. */
const repeatMs = 30_000

/** By port: the uid of the database that it belongs to. */
type PortOwners = ReadonlyMap<number, number>

export type PortGuard = {
  /** Call it before the server starts: its port may be free at this moment, and anyone may take it. */
  protect(owners: PortOwners): Promise<void>
  release(port: number): Promise<void>
  /** Why ports are not protected; null if they are. */
  problem(): string | null
  close(): Promise<void>
}

/**
 * Lets nobody but the account of a database send from its port, with nftables. Otherwise a program in the account of another one could take
 * the port while the server restarts, and ask clients for their passwords. One table for the machine: whoever starts a server on a port
 * replaces what a killed process left there.
 */
export function createPortGuard(): PortGuard {
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
    async protect(owners) {
      for (const [port, uid] of owners) protectedPorts.set(port, uid)
      timer ??= setInterval(repeat, repeatMs).unref()
      await apply([...owners].flatMap(protecting))
    },
    async release(port) {
      if (protectedPorts.delete(port)) await apply(releasing(port))
    },
    problem: () => problem,
    async close() {
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
