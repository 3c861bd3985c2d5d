import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** A process that answers every message with one message. */
export type Peer = { ask<T = object>(message: object): Promise<T>; child: ChildProcess }

/** Node's compile cache: most starts are not the first one, so the second is measured. */
const compiled = new URL('../../../node_modules/.cache/keyhook', import.meta.url).pathname

export async function startPeer(file: string, execArgv: string[] = []): Promise<Peer> {
  const child = fork(new URL(file, import.meta.url), {
    execArgv,
    env: { ...process.env, NODE_COMPILE_CACHE: compiled },
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  // The engine's log goes to a pipe that is read and discarded: writing it is part of what is measured.
  if (process.env.BENCH_LOG) child.stderr!.pipe(process.stderr)
  else child.stderr!.resume()
  const ask = async <T>(message: object): Promise<T> => {
    child.send(message)
    const [answer] = await once(child, 'message')
    return answer as T
  }
  return { ask, child }
}
