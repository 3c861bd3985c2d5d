import { createServer } from 'node:net'
import { join } from 'node:path'
import { createKeyedQueue } from '../../kernel/keyed-queue.ts'
import { StepFailure } from '../driver.ts'
import type { Home } from './home.ts'
import { instancesIn, readPort, writePort } from './instance-directory.ts'

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
