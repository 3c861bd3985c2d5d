import { fork } from 'node:child_process'
import { once } from 'node:events'

export type Child = { url: string; pid: number; stop(): Promise<void> }

/** A server in a process of its own, which sends its URL once it listens. */
export async function startChild(script: URL, settings: object): Promise<Child> {
  const child = fork(script, [JSON.stringify(settings)], { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
  // Its log goes to a pipe that is read and discarded: writing it is part of what is measured.
  if (process.env.BENCH_LOG) child.stderr!.pipe(process.stderr)
  else child.stderr!.resume()
  const [url] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error(`${script} ended before it listened`)
    }),
  ])) as [string]
  return {
    url,
    pid: child.pid!,
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
    },
  }
}
