import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Output, printable, styled, UsageError } from '@keyhook/cli'
import { createReceiver, localCertificate, type Received } from '@keyhook/cli/receiver'
import { lastLines } from '../../postgres/start-program.ts'

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

const serverLog = (folder: string): string => join(folder, 'server.log')

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
const endOf = async (logFile: string): Promise<string> => lastLines(await readFile(logFile, 'utf8').catch(() => ''))

type Ready = { url: string; organization_id: string; owner_id: string; console_url: string | null }

async function firstLine(server: ChildProcess, logFile: string): Promise<Ready> {
  const lines = createInterface({ input: server.stdout! })
  for await (const line of lines) return JSON.parse(line) as Ready
  throw new UsageError(`The server of the demo did not start:\n${await endOf(logFile)}`)
}

/** A delivery that does not come within this time is a fault: on a slow machine they take seconds. */
const waitMsMax = 120_000

export type DemoReceiver = {
  url: string
  certificatePath: string
  verifyWith(secret: string): void
  /** Resolves when an event of this type has arrived, verified. */
  arrival(type: string): Promise<void>
  close(): void
}

/** The receiver of the demo's webhook: verifies every delivery as a customer's program would, and shows it. */
export async function startDemoReceiver(deps: { folder: string; output: Output }): Promise<DemoReceiver> {
  const certificate = await localCertificate(join(deps.folder, 'receiver'), new Date())
  const arrived = new Map<string, PromiseWithResolvers<void>>()
  const of = (type: string) => {
    const known = arrived.get(type) ?? Promise.withResolvers<void>()
    arrived.set(type, known)
    return known
  }
  let secret: string | null = null
  const receiver = createReceiver({
    certificate,
    behaviour: { status: 204, delayMs: 0, hang: false },
    secret: async () => (secret === null ? { why: 'there is no webhook yet' } : { secret }),
    onReceived(received) {
      deps.output.result(received, line(received))
      if ('signature' in received && received.signature === 'good') of(received.event).resolve()
    },
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  return {
    url: `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
    certificatePath: certificate.certificatePath,
    verifyWith(given) {
      secret = given
    },
    async arrival(type) {
      const timeout = AbortSignal.timeout(waitMsMax)
      const late = once(timeout, 'abort').then(async () => {
        throw new UsageError(
          `No ${type} arrived. The last lines of the server's log:\n${await endOf(serverLog(deps.folder))}`,
        )
      })
      await Promise.race([of(type).promise, late])
    },
    close() {
      receiver.close()
      receiver.closeAllConnections()
    },
  }
}

function line(received: Received): string {
  const verdict =
    'signature' in received && received.signature === 'good'
      ? styled('green', 'signature verified')
      : styled('red', 'NOT VERIFIED')
  const type = styled('bold', printable(received.event).padEnd(17))
  return `   ${styled('green', '←')} ${received.at.slice(11, 19)}  ${type}  ${verdict}  ${printable(received.id ?? '')}`
}
