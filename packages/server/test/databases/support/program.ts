import { type ChildProcess, spawn } from 'node:child_process'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const bin = join(import.meta.dirname, '../../../bin/keyhook.js')
const failpoint = import.meta.resolve('./failpoint.ts')

export type ReadyLine = { url: string; organization_id: string; owner_id: string }

/** `keyhook serve`, to be killed or frozen at any traced step, and started again. */
export function createProgram(options: { folder: string; environment: Record<string, string>; args?: string[] }) {
  const failpointFile = join(options.folder, 'failpoint')
  const environment = {
    PATH: process.env.PATH,
    STATE_DIRECTORY: process.env.STATE_DIRECTORY,
    PORT: '0',
    KEYHOOK_HTTP_DRAIN_MS: '0',
    KEYHOOK_LOG_LEVEL: process.env.TEST_LOG ?? 'fatal',
    TEST_FAILPOINT_FILE: failpointFile,
    NODE_COMPILE_CACHE: join(options.folder, 'compiled'),
    ...options.environment,
  }
  let child: ChildProcess | undefined
  let ended: Promise<string> = Promise.resolve('never started')

  return {
    get pid(): number | undefined {
      return child?.pid
    },
    /** How it ended: the signal, or the exit code. */
    get ended(): Promise<string> {
      return ended
    },
    async start(): Promise<ReadyLine> {
      const args = ['--import', failpoint, bin, 'serve', '--first-organization', '--json', ...(options.args ?? [])]
      const started = spawn(process.execPath, args, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
      child = started
      ended = new Promise((done) => started.once('exit', (code, signal) => done(signal ?? String(code))))
      const line = await new Promise<string>((done, fail) => {
        createInterface({ input: started.stdout! }).once('line', done)
        void ended.then((how) => fail(new Error(`ended before it was ready: ${how}`)))
      })
      return JSON.parse(line)
    },
    async failAt(step: string, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
      // Atomically, because the program may read it at any time.
      await writeFile(`${failpointFile}.draft`, JSON.stringify({ step, signal }))
      await rename(`${failpointFile}.draft`, failpointFile)
    },
    forgetFailpoint: (): Promise<void> => rm(failpointFile, { force: true }),
    async stop(): Promise<void> {
      if (child === undefined) return
      child.kill('SIGCONT')
      child.kill('SIGTERM')
      child = undefined
      await ended
    },
    signal: (name: NodeJS.Signals): void => void child?.kill(name),
  }
}

/** Rejects if the promise is not settled in time. */
export async function inTime<T>(promise: Promise<T>, what: string, msMax = 40_000): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what}: not within ${msMax} ms`)), msMax)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
