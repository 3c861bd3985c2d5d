import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import { operator } from '../access/audit.ts'
import { signOperatorTokens } from '../compose/routes.ts'
import { isId, type UserId } from '../lib/ids.ts'
import { durationSeconds } from '../lib/units.ts'
import { createSignInLink, linkMinutes } from '../login/console-sessions.ts'
import { createLocalIssuer, localTtlSecondsMax } from '../login/login-tokens.ts'
import { issueOperatorToken } from '../operator/token-routes.ts'
import { listOperatorTokens, type OperatorTokenRow, revokeOperatorToken } from '../operator/token-sql.ts'
import { noSuch } from '../organizations/rules.ts'
import { checkMayLogIn, findUserByEmail } from '../organizations/users.ts'
import { readServerAddress } from '../postgres/data-directory.ts'
import type { Installation } from '../startup/open.ts'
import { idOption } from './directory-commands.ts'
import { operatorCommand } from './installation.ts'

type Options = { user?: string; operator?: true; url?: string }

export function addCommands(program: KeyhookCommand): void {
  operatorCommand(program.command('console'), 'link', 'Print a link that signs in to the console once')
    .examples('npx keyhook console link --user you@example.com', 'npx keyhook console link --operator')
    .option('--user <usr>', 'Sign in this user, given by e-mail address or id')
    .option('--operator', 'Sign in as the operator')
    .option(
      '--url <url>',
      'Use this server address in the link (default: KEYHOOK_PUBLIC_URL, or the server that runs here)',
    )
    .run(async (installation, output, options: Options) => {
      const userId = await whoSignsIn(installation, options)
      const { publicUrl, port, dataDir } = installation.config
      const running = installation.isShared ? await readServerAddress(dataDir) : undefined
      const address = options.url ?? publicUrl ?? running ?? `http://localhost:${port}`
      const url = address.replace(/\/+$/, '') + (await createSignInLink(installation.db, userId))
      output.result({ url }, url)
      output.note(`The link works once, for ${linkMinutes} minutes.`)
    })
}

/** Null for the operator. */
async function whoSignsIn({ db }: Installation, { user, operator }: Options): Promise<UserId | null> {
  if ((user === undefined) === (operator === undefined))
    throw new UsageError('Give either --user EMAIL or --operator, not both.')
  if (user === undefined) return null
  if (user.includes('@')) {
    const found = await findUserByEmail(db, user)
    if (found === null)
      throw new UsageError(`No user has the e-mail address ${user}. "npx keyhook user list" lists all users.`)
    return found
  }
  if (!isId('usr', user))
    throw new UsageError(`--user: ${JSON.stringify(user)} is not an e-mail address or an id (usr_…)`)
  await checkMayLogIn(db, user)
  return user
}

type Issue = { user?: string; operator?: true; name?: string; ttl: string }

export function addTokenCommands(program: KeyhookCommand): void {
  const token = program.command('token')
  operatorCommand(token, 'issue', 'Issue a login token or an operator token, and print it')
    .examples(
      'TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)',
      'npx keyhook token issue --operator --name gateway --ttl 90d',
    )
    .option('--user <usr>', 'Issue a login token for this user (usr_…)')
    .option('--operator', 'Issue an operator token, which is for the paths below /operator/v1')
    .option('--name <name>', 'Give the operator token this name, which "token list" shows')
    .option('--ttl <duration>', 'Let the token expire after this time, such as 90s, 15m, 12h or 7d', '12h')
    .run(async (installation, output, options: Issue) => {
      const token = await issue(installation, options)
      // Prints only the token, so that TOKEN=$(npx keyhook token issue …) works.
      output.result({ token }, token)
    })
  operatorCommand(token, 'list', 'List all operator tokens, the newest first')
    .examples('npx keyhook token list')
    .list(
      (db, last, limit) => listOperatorTokens(db, { before: last || null, limit }),
      (page) => page.map(lineOf),
    )
  operatorCommand(token, 'revoke', 'Revoke an operator token; the next request with this token is refused')
    .examples('npx keyhook token revoke --token tok_…')
    .requiredOption('--token <tok>', 'Revoke the token with this id (tok_…), which "token list" shows')
    .run(async ({ db }, output, options: { token: string }) => {
      const id = idOption('tok', '--token', options.token)
      if (!(await revokeOperatorToken(db, id, null))) throw noSuch('operator token', id)
      output.result({ revoked: id }, `Revoked the operator token ${id}.`)
    })
}

async function issue({ db, masterKeys }: Installation, options: Issue): Promise<string> {
  const ttlSeconds = ttlOption(options.ttl)
  if ((options.user === undefined) === (options.operator === undefined))
    throw new UsageError('Give either --user USER or --operator, not both.')
  if (options.user === undefined) {
    const request = { name: options.name ?? null, ttlSeconds }
    return (await db.begin((tx) => issueOperatorToken(tx, signOperatorTokens(masterKeys), operator, request))).token
  }
  if (options.name !== undefined)
    throw new UsageError('--name: only operator tokens have a name; give --operator too, or leave out --name')
  const userId = idOption('usr', '--user', options.user)
  await checkMayLogIn(db, userId)
  return createLocalIssuer({ masterKeys, now: () => new Date() }).issue({ subject: userId, ttlSeconds })
}

function ttlOption(text: string): number {
  const seconds = durationSeconds(text)
  if (seconds === null || seconds < 1 || seconds > localTtlSecondsMax) {
    throw new UsageError(
      `--ttl: ${JSON.stringify(text)} is not a duration such as 90s, 15m, 12h or 7d (at most ${localTtlSecondsMax / 86_400}d)`,
    )
  }
  return seconds
}

function lineOf({ id, name, created_at, expires_at, revoked_at }: OperatorTokenRow): string {
  const status = revoked_at !== null ? 'revoked' : expires_at < new Date() ? 'expired' : 'active'
  const [from, until] = [created_at, expires_at].map((time) => time.toISOString().slice(0, 16))
  return `${id}  ${status.padEnd(7)}  ${from} to ${until}  ${name ?? ''}`.trimEnd()
}
