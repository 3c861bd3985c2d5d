import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  createOutput,
  type KeyhookCommand,
  OperationFailed,
  type Output,
  printable,
  stopSignal,
  styled,
  UsageError,
} from '@keyhook/cli'
import { createReceiver, localCertificate, type Received } from '@keyhook/cli/receiver'
import { type Client, createClient, type Database } from '@keyhook/client'
import { connect } from '../db/database.ts'
import { eventTypes } from '../delivery/events.ts'
import { removeDataDirectory } from '../postgres/data-directory.ts'
import { lastLines } from '../postgres/start-program.ts'

type Options = { keep?: string; once?: true; json?: boolean }

/** Everything that Keyhook does, on this machine, with nothing left behind. */
export function addCommands(program: KeyhookCommand): void {
  program
    .command('demo')
    .examples('npx keyhook demo', 'npx keyhook demo --keep ./demo')
    .option('--keep <folder>', 'Keep the data of the demo in this folder, which must be empty or new')
    .option('--once', 'End the demo after the last step instead of at Ctrl-C')
    .option('--json', 'Print a line of JSON for each event, and one with the ids of what was created')
    .action(demo)
}

async function demo(options: Options): Promise<void> {
  const output = createOutput(options)
  const say = (text: string): void => void (options.json || process.stdout.write(`${text}\n`))
  const stopped = stopSignal()
  void stopped.promise.then(() => say('\nStopping.'))
  await using parts = new AsyncDisposableStack()
  const folder = await demoFolder(options.keep)
  if (options.keep === undefined) parts.defer(() => removeFolder(folder))
  const end = options.keep === undefined ? 'removed when it ends' : 'kept'
  say(`${styled('bold', 'Keyhook demo.')} Everything is in ${folder}, and is ${end}.\n`)
  const receiver = await startDemoReceiver({ folder, output })
  parts.defer(receiver.close)
  say('Starting a server with its own PostgreSQL …')
  const server = startDemoServer({ folder, certificatePath: receiver.certificatePath })
  parts.defer(server.close)
  const work = async () =>
    runDemo({ server: await server.started(), receiver, output, say, isLast: options.once ?? false })
  const isDone = await Promise.race([work().then(() => true), stopped.promise.then(() => false)])
  if (!isDone || options.once) return
  await stopped.promise
}

async function demoFolder(keep: string | undefined): Promise<string> {
  if (keep === undefined) return mkdtemp(join(tmpdir(), 'keyhook-demo-'))
  const folder = resolve(keep)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if ((await readdir(folder)).length > 0)
    throw new UsageError(`--keep: ${folder} is not empty. Name an empty or a new folder.`)
  return folder
}

async function removeFolder(folder: string): Promise<void> {
  await removeDataDirectory(join(folder, 'data'))
  await rm(folder, { recursive: true, force: true })
}

const pollMs = 200

/** The tour: what a customer would do, each step with the event that it causes. */
async function runDemo(deps: {
  server: Ready & { token: string }
  receiver: Awaited<ReturnType<typeof startDemoReceiver>>
  output: Output
  say(text: string): void
  /** Nothing more is said after the steps. */
  isLast: boolean
}): Promise<void> {
  const { server, receiver, say } = deps
  const { url, organization_id, console_url } = server
  const asOwner = createClient({ url, token: server.token, organization: organization_id })
  const key = await asOwner.keys.create({ name: 'demo' })
  // From here on as a customer's script would, with the API key.
  const client = createClient({ url, token: key.api_key, organization: organization_id })
  const webhook = await client.webhooks.create({ url: receiver.url, event_types: [...eventTypes] })
  receiver.verifyWith(webhook.secret)
  say(`
   server        ${url}
   organization  ${organization_id}
   API key       ${key.key_prefix}_…
   webhook       ${webhook.id}
                 delivers to ${receiver.url}, which is this terminal
`)

  say(heading('1. A database "orders", with a table of 1,000 rows'))
  const orders = await client.databases.create({ name: 'orders' })
  await receiver.arrival('database.created')
  const source = { database: await untilAvailable(client, orders), password: orders.password }
  say(`   ${await fillDatabase(source)} rows in ${source.database.host}:${source.database.port}\n`)

  say(heading('2. A backup'))
  const backup = await client.backups.create(orders.id)
  await receiver.arrival('backup.completed')
  say('')

  say(heading('3. The backup, restored into a new database "orders-copy"'))
  const { database: copied } = await client.restores.create(backup.id, { name: 'orders-copy' })
  await receiver.arrival('restore.completed')
  const copy = { database: await untilAvailable(client, copied), password: copied.password }
  say(`   ${await countRows(copy)} rows in ${copy.database.host}:${copy.database.port}\n`)

  deps.output.result(
    {
      url,
      organization_id,
      api_key: key.api_key,
      webhook_id: webhook.id,
      backup_id: backup.id,
      database_ids: [orders.id, copied.id],
      console_url,
    },
    deps.isLast ? 'Done.' : nextSteps(server, key.api_key, webhook.id),
  )
}

const heading = (text: string): string => styled('bold', text)

async function untilAvailable(client: Client, { id }: Database): Promise<Database> {
  for (;;) {
    const database = await client.databases.get(id)
    if (database.status === 'available') return database
    if (database.status === 'failed') throw new OperationFailed(`The database ${id} failed: ${database.failure}`)
    await setTimeout(pollMs)
  }
}

const nextSteps = (
  { url, console_url }: Ready,
  apiKey: string,
  webhookId: string,
): string => `${heading('The demo runs until Ctrl-C.')} In another terminal:

   export KEYHOOK_URL=${url}
   export KEYHOOK_TOKEN=${apiKey}
   npx keyhook databases list
   npx keyhook events tail --after 0
   npx keyhook webhooks test ${webhookId}
   npx keyhook listen --forward-to http://localhost:3000/hooks
${console_url === null ? '' : `\n   The console (the link works once, for 10 minutes): ${console_url}`}
   The API reference: ${url}/docs`

const rows = 1_000

type Login = { database: Database; password: string }

async function query(login: Login, text: string): Promise<number> {
  const { host, port, user, database: name } = login.database
  const target = { host: host!, port: port!, user, password: login.password, database: name }
  const db = connect(target, { name: 'keyhook demo', connectionsMax: 1 })
  try {
    const [row] = await db.unsafe<{ count: string }[]>(text)
    return Number(row?.count ?? 0)
  } finally {
    await db.end()
  }
}

/** Something worth a backup. Returns the number of rows. */
async function fillDatabase(login: Login): Promise<number> {
  await query(
    login,
    'create table orders (id bigint primary key, customer text not null, amount_cents bigint not null)',
  )
  await query(login, `insert into orders select n, 'customer ' || n % 50, n * 25 from generate_series(1, ${rows}) n`)
  return countRows(login)
}

const countRows = (login: Login): Promise<number> => query(login, 'select count(*) from orders')

const program = fileURLToPath(new URL('../../bin/keyhook.js', import.meta.url))

/** What `serve --json` prints. `console_url` signs in once; null where there is no console. */
type Ready = { url: string; organization_id: string; owner_id: string; console_url: string | null }

const serverLog = (folder: string): string => join(folder, 'server.log')

/** The real server as a process of its own, with the settings of the demo and none of this terminal's. */
function startDemoServer(options: { folder: string; certificatePath: string }) {
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
    /** With a login token of the owner that the first start creates. */
    async started(): Promise<Ready & { token: string }> {
      const ready = await firstLine(server, logFile)
      const issue = ['token', 'issue', '--user', ready.owner_id, '--json']
      const { stdout } = await promisify(execFile)(process.execPath, [program, ...issue], { env })
      const { token } = JSON.parse(stdout) as { token: string }
      return { ...ready, token }
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

async function firstLine(server: ChildProcess, logFile: string): Promise<Ready> {
  const lines = createInterface({ input: server.stdout! })
  for await (const line of lines) return JSON.parse(line) as Ready
  throw new UsageError(`The server of the demo did not start:\n${await endOf(logFile)}`)
}

/** A delivery that does not come within this time is a fault: on a slow machine they take seconds. */
const waitMsMax = 120_000

/** The receiver of the demo's webhook: verifies every delivery as a customer's program would, and shows it. */
async function startDemoReceiver(deps: { folder: string; output: Output }) {
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
    verifyWith(given: string) {
      secret = given
    },
    /** Resolves when an event of this type has arrived, verified. */
    async arrival(type: string): Promise<void> {
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
