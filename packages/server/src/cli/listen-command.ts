import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { prepareDataDirectory } from '../embedded/data-directory.ts'
import { localCertificate } from '../listen/certificate.ts'
import { createListenServer, type Received, type Secret } from '../listen/listen-server.ts'
import { examples } from '../terminal/examples.ts'
import { UsageError } from './output.ts'
import { stopSignal } from './stop-signal.ts'
import type { Environment } from './with-installation.ts'

type Options = { port: number; status: number; secretFile?: string; json?: boolean }

/** A webhook receiver on this machine, for trying things out. */
export function addListenCommand(program: Command, environment: Environment): void {
  program
    .command('listen')
    .description('Receive deliveries on this machine over HTTPS and print them, until Ctrl-C')
    .addHelpText(...examples('npx keyhook listen --secret-file webhook.secret', 'npx keyhook listen --status 500'))
    .option('--port <port>', 'Port to listen on; 0 takes a free one', integerBetween(0, 65_535), 9443)
    .option('--status <status>', 'Status to answer, to see retries', integerBetween(200, 599), 204)
    .option('--secret-file <file>', "Check signatures with the webhook's secret in this file, read at each delivery")
    .option('--json', 'Print one line of JSON a delivery')
    .action((options: Options) => listen(environment, options))
}

async function listen(environment: Environment, options: Options): Promise<void> {
  // The variable may name the certificate that this command is about to create.
  const { dataDir: given, serviceName } = environment({ KEYHOOK_DELIVERY_CA_FILE: '' })
  const { secretFile } = options
  if (secretFile !== undefined) await checkReadable(secretFile)
  const folder = join(await prepareDataDirectory(given), 'listen')
  const certificate = await localCertificate(folder, new Date()).catch((error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) throw error
    throw new UsageError(`KEYHOOK_DATA_DIR: the certificate cannot be kept in ${folder} (${error.message}).`)
  })
  const receiver = createListenServer({
    certificate,
    serviceName,
    status: options.status,
    secret: () => readSecret(secretFile),
    onReceived: (received) => process.stdout.write(`${options.json ? JSON.stringify(received) : describe(received)}\n`),
  })
  receiver.listen(options.port, '127.0.0.1')
  await once(receiver, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `--port: nothing can listen on ${options.port} (${error.code}). Name a free one, or 0 for any.`,
    )
  })
  const { port } = receiver.address() as AddressInfo
  process.stderr.write(
    `Listening on https://127.0.0.1:${port}. To deliver here, start Keyhook with\n` +
      `  KEYHOOK_DELIVERY_ALLOW_NETWORKS=127.0.0.0/8 KEYHOOK_DELIVERY_CA_FILE=${certificate.certificatePath}\n`,
  )
  await stopSignal().promise
  receiver.close()
  receiver.closeAllConnections()
}

const verdicts = { good: 'signature good', bad: 'SIGNATURE WRONG', unchecked: 'signature not checked' }

const describe = (received: Received): string => {
  if ('refused' in received) return `${escapeControlCharacters(received.event)}  (REFUSED: ${received.refused})`
  const why = received.signature === 'unchecked' && received.why !== null ? `: ${received.why}` : ''
  return `${escapeControlCharacters(received.event)}  (${verdicts[received.signature]}${why})\n  ${escapeControlCharacters(received.body)}`
}

/** Any process on the machine can send to us, and a terminal interprets control characters (CWE-150). */
const escapeControlCharacters = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced.
  text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`)

/** A file that does not exist may be created later, as in the README's tour. */
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

const integerBetween = (min: number, max: number) => (text: string) => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new InvalidArgumentError(`It has to be a number from ${min} to ${max}.`)
}
