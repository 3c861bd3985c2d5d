import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { eventTypes } from '../../domain/event-types.ts'
import { sessionOptions } from '../customer-command.ts'
import { durationMs } from '../durations.ts'
import { examples } from '../examples.ts'
import { createOutput, UsageError } from '../output.ts'
import { stateDirectory } from '../profiles.ts'
import { openSession, type SessionOptions } from '../session.ts'
import { stopSignal } from '../stop-signal.ts'
import { styled } from '../style.ts'
import { typesOf } from '../webhooks-commands.ts'
import { type Certificate, localCertificate } from './certificate.ts'
import { receivedText } from './received-text.ts'
import { createReceiver, type Secret } from './receiver.ts'

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
export function addReceiveCommand(program: Command): void {
  sessionOptions(program.command('receive'))
    .addHelpText(
      ...examples(
        'npx keyhook receive',
        'npx keyhook receive --events backup.completed --respond 500',
        'npx keyhook receive --delay 5s',
        'npx keyhook receive --hang',
      ),
    )
    .option('--port <port>', 'Port to listen on; 0 takes a free one', integerBetween(0, 65_535), 9443)
    .option('--events <types>', 'Event types to receive; the six of every Keyhook without it')
    .option('--respond <status>', 'Status to answer, to see retries', integerBetween(200, 599), 204)
    .option('--delay <duration>', 'Wait before each answer, such as 5s')
    .option('--hang', 'Never answer')
    .option('--no-register', 'Do not create a webhook; for one that exists')
    .option('--secret-file <file>', 'With --no-register: check signatures with the secret in this file')
    .option('--print-certificate', 'Print the path of the certificate and exit; the server has to trust it')
    .action(receive)
}

async function receive(options: Options): Promise<void> {
  const output = createOutput(options.json ?? false)
  const certificate = await certificateHere()
  const path = certificate.certificatePath
  if (options.printCertificate) return output.result({ certificate: path }, path)
  if (options.secretFile !== undefined) await checkReadable(options.secretFile)
  const session = options.register ? await openSession(options) : null
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
      `--port: nothing can listen on ${options.port} (${error.code}). Name a free one, or 0 for any.`,
    )
  })
  const { port } = receiver.address() as AddressInfo
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => {
    receiver.close()
    receiver.closeAllConnections()
  })
  note(`Receiving on https://127.0.0.1:${port}. Ctrl-C stops.`)
  serverHint(path)
  const stopped = stopSignal().promise
  if (session !== null) {
    const { client } = session
    const types = options.events === undefined ? [...eventTypes] : typesOf(options.events)
    const webhook = await client.webhooks.create({ url: `https://127.0.0.1:${port}/`, event_types: types })
    secret = async () => ({ secret: webhook.secret })
    cleanup.defer(async () => {
      await client.webhooks.delete(webhook.id)
      note(`Deleted the webhook ${webhook.id}.`)
    })
    note(`Created the webhook ${styled('bold', webhook.id, process.stderr)} for ${types.join(', ')}.`)
    note(`Try it in another terminal: npx keyhook webhooks test ${webhook.id} --event ${types[0]}`)
  }
  await stopped
}

/** On standard error also with --json: people need it to go on. */
const note = (text: string): void => void process.stderr.write(`${text}\n`)

function serverHint(path: string): void {
  note('Keyhook delivers here only if it was started with:')
  note(`  KEYHOOK_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8 KEYHOOK_DELIVERY_CA_FILE=${path}`)
}

async function certificateHere(): Promise<Certificate> {
  const folder = join(stateDirectory(), 'receive')
  return localCertificate(folder, new Date()).catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error
    throw new UsageError(
      `The certificate cannot be kept in ${folder} (${error.message}). XDG_STATE_HOME names another place.`,
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

function integerBetween(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`It has to be a number from ${min} to ${max}.`)
  }
}
