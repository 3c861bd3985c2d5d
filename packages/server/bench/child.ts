import { fork } from 'node:child_process'
import { once } from 'node:events'

export type Child = { url: string; stop(): Promise<void> }

/** A server in a process of its own, which sends its URL once it listens. */
export async function startChild(script: URL, settings: object): Promise<Child> {
  const child = fork(script, [JSON.stringify(settings)])
  const [url] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error(`${script} ended before it listened`)
    }),
  ])) as [string]
  return {
    url,
    async stop() {
      const gone = once(child, 'exit')
      child.kill('SIGTERM')
      await gone
    },
  }
}
