import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { UsageError } from '@keyhook/cli'
import { lastLines } from '../../embedded/tool.ts'

const program = fileURLToPath(new URL('../../../bin/keyhook.js', import.meta.url))

export type Started = {
  url: string
  orgId: string
  /** A login token of the owner that the first start creates. */
  ownerToken: string
  /** A link that signs in once; null where there is no console. */
  consoleUrl: string | null
}

export type DemoServer = { started(): Promise<Started>; close(): Promise<void> }

export const serverLog = (folder: string): string => join(folder, 'server.log')

/** The real server as a process of its own, with the settings of the demo and none of this terminal's. */
export function startDemoServer(options: { folder: string; certificatePath: string }): DemoServer {
  const env = {
    ...otherVariables(),
    KEYHOOK_DATA_DIR: join(options.folder, 'data'),
    KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8',
    KEYHOOK_DELIVERY_CA_FILE: options.certificatePath,
    PORT: '0',
    // No proxy is in front of it.
    KEYHOOK_HTTP_DRAIN_MS: '0',
    // As under npm: the server stops when its parent is gone, however that ended.
    npm_command: process.env.npm_command ?? 'exec',
  }
  const logFile = serverLog(options.folder)
  const log = openSync(logFile, 'a', 0o600)
  const server = spawn(process.execPath, [program, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', log] })
  closeSync(log)
  const ended = once(server, 'exit')
  return {
    async started() {
      const ready = await firstLine(server, logFile)
      const issue = ['token', 'issue', '--user', ready.owner_id, '--json']
      const { stdout } = await promisify(execFile)(process.execPath, [program, ...issue], { env })
      const { token } = JSON.parse(stdout) as { token: string }
      return { url: ready.url, orgId: ready.organization_id, ownerToken: token, consoleUrl: ready.console_url }
    },
    async close() {
      if (server.exitCode === null && server.signalCode === null) server.kill('SIGTERM')
      await ended
    },
  }
}

const otherVariables = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(KEYHOOK_|DATABASE_URL(_FILE)?$|HOST$|PORT$)/.test(name)),
  )

/** The log is removed with the demo, so the reason has to be in the message. */
export const endOf = async (logFile: string): Promise<string> =>
  lastLines(await readFile(logFile, 'utf8').catch(() => ''))

type Ready = { url: string; organization_id: string; owner_id: string; console_url: string | null }

async function firstLine(server: ChildProcess, logFile: string): Promise<Ready> {
  const lines = createInterface({ input: server.stdout! })
  for await (const line of lines) return JSON.parse(line) as Ready
  throw new UsageError(`The server of the demo did not start:\n${await endOf(logFile)}`)
}
