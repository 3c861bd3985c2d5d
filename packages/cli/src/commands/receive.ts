import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { CreatedWebhook, StandardEventType } from '@keyhook/client'
import { durationMs, integerBetween, typesOf } from '../arguments.ts'
import { createOutput, note, UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { type Certificate, createReceiver, localCertificate, type Received, type Secret } from '../receiver.ts'
import { openSession, type Session, type SessionOptions, sessionOptions } from '../session.ts'
import { stopSignal } from '../stop-signal.ts'
import { printable, styled } from '../style.ts'
import { stateDirectory } from '../user-files.ts'

const standardTypes: readonly StandardEventType[] = [
  'database.created',
  'database.failed',
  'backup.completed',
  'backup.failed',
  'restore.completed',
  'invoice.paid',
]

type Options = SessionOptions & {
  port: number
  events?: string
  respond: number
  delay?: string
  hang?: true
  register: boolean
  secretFile?: string
  printCertificate?: true
}

/** A webhook receiver on this machine. `listen` needs no certificate; this one shows what Keyhook itself sends. */
export function addCommands(program: KeyhookCommand): void {
  sessionOptions(program.command('receive'))
    .examples(
      'npx keyhook receive',
      'npx keyhook receive --events backup.completed --respond 500',
      'npx keyhook receive --delay 5s',
      'npx keyhook receive --hang',
    )
    .option('--port <port>', 'Listen on this port; 0 chooses a free port', integerBetween(0, 65_535), 9443)
    .option('--events <types>', 'Receive these event types, separated by commas; by default the six standard types')
    .option(
      '--respond <status>',
      'Answer with this status, for example 500 to see retries',
      integerBetween(200, 599),
      204,
    )
    .option('--delay <duration>', 'Wait this long before each answer, such as 5s')
    .option('--hang', 'Never answer a delivery')
    .option('--no-register', 'Create no webhook: receive the deliveries of an existing webhook')
    .option('--secret-file <file>', 'With --no-register: verify signatures with the secret in this file')
    .option('--print-certificate', 'Print the path of the certificate that the server has to trust, and exit')
    .action(receive)
}

async function receive(options: Options): Promise<void> {
  const output = createOutput(options)
  const certificate = await certificateHere()
  const path = certificate.certificatePath
  if (options.printCertificate) return output.result({ certificate: path }, path)
  if (options.secretFile !== undefined) await checkReadable(options.secretFile)
  const session = options.register ? await openSession(options) : null
  const types = options.events === undefined ? standardTypes : typesOf(options.events)
  let secret: () => Promise<Secret> = () => readSecret(options.secretFile)
  const receiver = createReceiver({
    certificate,
    behaviour: {
      status: options.respond,
      delayMs: options.delay === undefined ? 0 : durationMs('--delay', options.delay),
      hang: options.hang ?? false,
    },
    secret: () => secret(),
    onReceived: (received) => output.result(received, receivedText(received)),
  })
  receiver.listen(options.port, '127.0.0.1')
  await once(receiver, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `--port: the receiver cannot listen on port ${options.port} (${error.code}). Choose a free port, or 0 for any free port.`,
    )
  })
  const { port } = receiver.address() as AddressInfo
  try {
    note(`Receiving on https://127.0.0.1:${port}. Ctrl-C stops this command.`)
    serverHint(path)
    const stopped = stopSignal().promise
    if (session === null) await stopped
    else
      await withWebhook(session, { port, types }, (webhook) => {
        secret = async () => ({ secret: webhook.secret })
        return stopped
      })
  } finally {
    receiver.close()
    receiver.closeAllConnections()
  }
}

/** The webhook exists while the work runs. */
async function withWebhook(
  { client }: Session,
  { port, types }: { port: number; types: readonly string[] },
  work: (webhook: CreatedWebhook) => Promise<unknown>,
): Promise<void> {
  const webhook = await client.webhooks.create({ url: `https://127.0.0.1:${port}/`, event_types: [...types] })
  try {
    note(`Created the webhook ${styled('bold', webhook.id, process.stderr)} for ${types.join(', ')}.`)
    note(`Send a test event from another terminal: npx keyhook webhooks test ${webhook.id} --event ${types[0]}`)
    await work(webhook)
  } finally {
    await client.webhooks.delete(webhook.id)
    note(`Deleted the webhook ${webhook.id}.`)
  }
}

function serverHint(path: string): void {
  note('Keyhook delivers to this receiver only if the server was started with:')
  note(`  KEYHOOK_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8 KEYHOOK_DELIVERY_CA_FILE=${path}`)
}

async function certificateHere(): Promise<Certificate> {
  const folder = join(stateDirectory(), 'receive')
  return localCertificate(folder, new Date()).catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error
    throw new UsageError(
      `The certificate cannot be kept in ${folder} (${error.message}). Set XDG_STATE_HOME to another folder.`,
    )
  })
}

/** A file that does not exist may be created later, by the call that creates the webhook. */
async function checkReadable(secretFile: string): Promise<void> {
  await readFile(secretFile).catch(({ code }: NodeJS.ErrnoException) => {
    if (code !== 'ENOENT') throw new UsageError(`--secret-file: ${secretFile} cannot be read (${code}).`)
  })
}

async function readSecret(file: string | undefined): Promise<Secret> {
  if (file === undefined) return { why: null }
  try {
    return { secret: (await readFile(file, 'utf8')).trim() }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return { why: code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read (${code})` }
  }
}

/** One delivery for people: time, type, verdict and answer, then the body. */
function receivedText(received: Received): string {
  const answer = received.answer === null ? 'no answer' : `answered ${received.answer}`
  const head = `${styled('dim', received.at.slice(11, 19))}  ${styled('bold', printable(received.event))}`
  if ('refused' in received) return `${head}  ${styled('red', `REFUSED: ${received.refused}`)}  ${answer}`
  return `${head}  ${verdict(received)}  ${answer}\n${pretty(received.body)}`
}

function verdict(received: Exclude<Received, { refused: string }>): string {
  if (received.signature === 'good') return styled('green', 'signature verified')
  if (received.signature === 'bad') return styled('red', `SIGNATURE WRONG: ${received.why}`)
  return styled('yellow', `signature not checked${received.why === null ? '' : `: ${received.why}`}`)
}

/** Any process on the machine can send to us: only JSON is laid out, and control characters are escaped. */
function pretty(body: string): string {
  try {
    return indented(JSON.stringify(JSON.parse(body), null, 2))
  } catch {
    return indented(body)
  }
}

const indented = (text: string): string =>
  text
    .split('\n')
    .map((line) => `  ${printable(line)}`)
    .join('\n')
