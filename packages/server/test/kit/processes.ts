import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { runCommandLine } from '../../src/cli/command-line.ts'
import type { ConnectionTarget } from '../../src/db/database.ts'
import { removeDataDirectory } from './data-directory.ts'
import { until } from './until.ts'

export const program = new URL('../../bin/keyhook.js', import.meta.url).pathname

export type Ended = { code: number | null; stdout: string; stderr: string }

/**
 * The environment of a process: only what a test sets, and no settings of the user who runs the tests. SIGTERM stops a server without
 * the five seconds in which proxies notice.
 */
export const cleanEnvironment = (environment: Record<string, string>): NodeJS.ProcessEnv => {
  const { PATH, HOME, TMPDIR, STATE_DIRECTORY } = process.env
  return { PATH, HOME, TMPDIR, STATE_DIRECTORY, KEYHOOK_HTTP_DRAIN_MS: '0', ...environment } as NodeJS.ProcessEnv
}

/** One command of the real program, in its own process. */
export async function keyhook(
  args: string[],
  environment: Record<string, string>,
  account: { uid?: number; gid?: number } = {},
): Promise<Ended> {
  const env = cleanEnvironment(environment)
  const child = spawn(process.execPath, [program, ...args], { env, ...account })
  const output = collect(child)
  const [code] = await once(child, 'close')
  return { code, ...output() }
}

/**
 * The same command inside this process, which starts many times faster. It replaces standard output and the environment while it
 * runs, so only one can run at a time.
 */
export async function keyhookHere(args: string[], environment: Record<string, string>): Promise<Ended> {
  const output = { stdout: '', stderr: '' }
  const kept = { env: process.env, stdout: process.stdout.write, stderr: process.stderr.write }
  process.env = cleanEnvironment(environment)
  for (const name of ['stdout', 'stderr'] as const) {
    process[name].write = ((text: string) => {
      output[name] += text
      return true
    }) as typeof process.stdout.write
  }
  try {
    const code = await runCommandLine(args)
    return { code, ...output }
  } finally {
    process.env = kept.env
    process.stdout.write = kept.stdout
    process.stderr.write = kept.stderr
  }
}

export type Running = {
  url: string
  ready: { url: string; organization_id: string; owner_id: string; metrics_url: string | null }
  child: ChildProcess
  output(): { stdout: string; stderr: string }
  /** Sends the signal and waits for the end. */
  stop(signal?: NodeJS.Signals): Promise<Ended>
}

/** A new one: the data directory of the checkout may be in use. */
async function newDataDirectory(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
  onTestFinished(() => removeDataDirectory(dataDir))
  return dataDir
}

/** The real server in its own process and on its own port; stopped when the test ends. */
export async function serve(
  environment: Record<string, string>,
  args = ['--json'],
  { needsOrganization = true } = {},
): Promise<Running> {
  const dataDir = environment.KEYHOOK_DATA_DIR ?? (await newDataDirectory())
  // On a PostgreSQL of its own a server makes an organization only if it is asked to.
  const first = needsOrganization && environment.DATABASE_URL !== undefined ? ['--first-organization'] : []
  const child = spawn(process.execPath, [program, 'serve', ...first, ...args], {
    env: cleanEnvironment({ PORT: '0', ...environment, KEYHOOK_DATA_DIR: dataDir }),
  })
  const output = collect(child)
  const ended = once(child, 'close')
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    const [code] = await ended
    return { code, ...output() }
  }
  onTestFinished(async () => {
    await stop()
  })
  const isReady = () => (args.includes('--json') ? output().stdout.includes('\n') : output().stdout.includes('Ctrl-C'))
  await until(() => isReady() || child.exitCode !== null)
  if (!isReady()) throw new Error(`serve ended with ${child.exitCode}: ${output().stderr}`)
  const ready = args.includes('--json') ? JSON.parse(output().stdout) : {}
  return { url: ready.url, ready, child, output, stop }
}

function collect(child: ChildProcess): () => { stdout: string; stderr: string } {
  let [stdout, stderr] = ['', '']
  child.stdout!.setEncoding('utf8').on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr!.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  return () => ({ stdout, stderr })
}

export async function scratchDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'keyhook-cli-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

export type Bridge = {
  url: string
  target: ConnectionTarget
  cut(): Promise<void>
  reopen(): Promise<void>
  reset(): void
  silence(): void
}

/**
 * A DATABASE_URL for the tests' PostgreSQL, which listens on a Unix socket only. `cut` closes all connections and the port,
 * `reopen` opens the port again, `reset` resets the connections, `silence` keeps them and forwards nothing. With `keep` it
 * is not closed when the test ends.
 */
export async function bridgeTo(
  target: ConnectionTarget,
  { keep = false, cutAt = null as string | null } = {},
): Promise<Bridge> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((client) => {
    const database = connect(join(target.host, `.s.PGSQL.${target.port}`))
    for (const [from, to] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
    client.on('data', (chunk) => {
      if (cutAt === null || !chunk.includes(cutAt)) return
      cutAt = null
      client.destroy()
    })
  })
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const cut = async () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  const reset = () => {
    // The sockets of the other side are Unix sockets, which cannot be reset.
    for (const socket of sockets) if (socket.remotePort !== undefined) socket.resetAndDestroy()
  }
  if (!keep) onTestFinished(cut)
  const { port } = server.address() as { port: number }
  const [user, password] = [target.user, target.password].map(encodeURIComponent)
  return {
    url: `postgres://${user}:${password}@127.0.0.1:${port}/${target.database}`,
    target: { ...target, host: '127.0.0.1', port },
    cut,
    reopen: () => listen(port),
    reset,
    silence() {
      for (const socket of sockets) socket.unpipe()
    },
  }
}
