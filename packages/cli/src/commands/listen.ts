import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { type Client, KeyhookError } from '@keyhook/client'
import { integerBetween, sequenceOption, typesOf } from '../arguments.ts'
import { note, UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { customerCommand, httpUrl, type Session, type SessionOptions } from '../session.ts'
import { printable, styled } from '../style.ts'
import { createPositionFile, type Position, type PositionFile } from '../user-files.ts'
import { type Attempt, createForwarder, readServiceName } from './forwarder.ts'

const secretVariable = 'KEYHOOK_WEBHOOK_SECRET'

type Options = SessionOptions & {
  forwardTo: string
  events?: string
  secretFile?: string
  after?: string
  fromNow?: true
  attempts: number
}

/** Events come over a connection that we open, so that the program needs no public address, certificate or open port. */
export function addCommands(program: KeyhookCommand): void {
  customerCommand(program, 'listen')
    .examples(
      'npx keyhook listen --forward-to http://localhost:3000/hooks',
      'npx keyhook listen --forward-to http://localhost:3000/hooks --events backup.failed',
    )
    .requiredOption('--forward-to <url>', 'Post events to your program at this http:// or https:// address')
    .option('--events <types>', 'Forward only events of these types, separated by commas')
    .option(
      '--secret-file <file>',
      `Sign with the secret (whsec_…) in this file, or in ${secretVariable}; by default a new secret is created and printed`,
    )
    .option('--after <sequence>', 'Start after this sequence number; 0 forwards every stored event')
    .option('--from-now', 'Skip the events that happened since this command last ran')
    .option('--attempts <n>', 'Give up on an event after <n> attempts', integerBetween(1, 9_999), 5)
    .run(listen)
}

async function listen(session: Session, options: Options): Promise<void> {
  const { client, url, orgId, output } = session
  const target = targetOption(options.forwardTo)
  const eventTypes = options.events === undefined ? undefined : typesOf(options.events)
  const given = await givenSecret(options.secretFile)
  const secret = given ?? `whsec_${randomBytes(32).toString('base64')}`
  const file = createPositionFile({ url, orgId, target, events: (eventTypes ?? []).join() })
  let position = await startAt(client, file, options)
  await file.write(position)
  const forwarder = createForwarder({
    target,
    secret,
    serviceName: await readServiceName(url),
    attemptsMax: options.attempts,
    onAttempt: (attempt) => output.result(attempt, attemptLine(attempt)),
    onWaiting: ({ sequence }) => note(`Event #${sequence} waits: no program listens at ${target}.`),
  })
  note(
    `Forwarding events of ${orgId} to\n${target}, starting with #${position.sequence + 1}. Ctrl-C stops this command.`,
  )
  if (given === null) note(`The events are signed with the secret ${styled('bold', secret, process.stderr)}`)
  let isLost = false
  for (;;) {
    try {
      for await (const event of client.events.stream({
        after: position.sequence,
        eventTypes,
        onReconnect(error) {
          if (!isLost) note(`The connection was lost${reasonText(error)}. Connecting again.`)
          isLost = true
        },
        onConnect() {
          if (isLost) note('The connection works again.')
          isLost = false
        },
      })) {
        await forwarder.forward(event, position.previous)
        // Only now: after a crash this event is forwarded again, with the same id.
        position = { sequence: event.sequence, previous: event.sequence }
        await file.write(position)
      }
    } catch (error) {
      position = { ...position, sequence: afterExpired(error) }
      note(`The events up to #${position.sequence} are no longer stored, and were skipped.`)
    }
  }
}

async function startAt(client: Client, file: PositionFile, options: Options): Promise<Position> {
  if (options.after !== undefined) return { sequence: sequenceOption('--after', options.after), previous: null }
  const stored = options.fromNow ? null : await file.read()
  if (stored !== null) return stored
  const { items } = await client.events.list({ limit: 1 }).page()
  return { sequence: items[0]?.sequence ?? 0, previous: null }
}

/** The last number that is gone, if that is what the error is about. */
function afterExpired(error: unknown): number {
  const oldest = error instanceof KeyhookError ? error.problem?.oldest_sequence : undefined
  if (!(error instanceof KeyhookError) || error.code !== 'events.expired' || typeof oldest !== 'number') throw error
  return oldest - 1
}

function attemptLine(attempt: Attempt): string {
  const isDone = attempt.status !== null && attempt.status >= 200 && attempt.status < 300
  const answer = attempt.status === null ? printable(attempt.error ?? '') : String(attempt.status)
  const next =
    attempt.retry_in_ms !== null ? `, next attempt in ${attempt.retry_in_ms / 1_000} s` : isDone ? '' : ', given up'
  return [
    attempt.at.slice(11, 19),
    `#${attempt.sequence}`,
    styled('bold', attempt.type),
    `attempt ${attempt.attempt}`,
    styled(isDone ? 'green' : 'red', answer) + next,
    styled('dim', `${attempt.duration_ms} ms`),
  ].join('  ')
}

const reasonText = (error: unknown): string => (error instanceof Error ? ` (${printable(error.message)})` : '')

function targetOption(text: string): string {
  const url = httpUrl(text)
  if (url === null)
    throw new UsageError(`--forward-to: ${JSON.stringify(text)} is not an address such as http://localhost:3000/hooks.`)
  return url.href
}

/** Never an argument: every user of the machine sees those in the list of processes. Null if there is none. */
async function givenSecret(file: string | undefined): Promise<string | null> {
  const text = file === undefined ? process.env[secretVariable] : await readSecretFile(file)
  if (text === undefined || (file === undefined && text.trim() === '')) return null
  if (/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(text.trim())) return text.trim()
  const where = file === undefined ? secretVariable : `--secret-file: ${file}`
  throw new UsageError(
    `${where} has no secret. A secret is "whsec_" and at least 24 bytes in base64, like the secret of a webhook.`,
  )
}

const readSecretFile = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch(({ code }: NodeJS.ErrnoException) => {
    throw new UsageError(`--secret-file: ${file} cannot be read (${code}).`)
  })
