import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { operator } from '../access/audit.ts'
import { signOperatorTokens } from '../compose/routes.ts'
import type { Database } from '../db/database.ts'
import { isId, type UserId } from '../lib/ids.ts'
import { durationSeconds } from '../lib/units.ts'
import { createSignInLink, linkMinutes } from '../login/console-sessions.ts'
import { createLocalIssuer, localTtlSecondsMax } from '../login/login-tokens.ts'
import { issueOperatorToken } from '../operator/token-routes.ts'
import { listOperatorTokens, type OperatorTokenRow, revokeOperatorToken } from '../operator/token-sql.ts'
import { noSuch } from '../organizations/rules.ts'
import { findUserByEmail, userExists } from '../organizations/users.ts'
import { readServerAddress } from '../postgres/data-directory.ts'
import type { Installation } from '../startup/open.ts'
import { idOption } from './directory-commands.ts'
import { type Environment, withInstallation } from './installation.ts'

type Options = { user?: string; operator?: true; url?: string; json?: boolean }

export function addConsoleCommands(program: Command, environment: Environment): void {
  program
    .command('console')
    .description('Print a link that signs in to the web console')
    .command('link')
    .description('Print a link that signs in to the console once')
    .addHelpText(...examples('npx keyhook console link --user you@example.com', 'npx keyhook console link --operator'))
    .option('--user <usr>', 'Sign in this user, given by e-mail address or id')
    .option('--operator', 'Sign in as the operator')
    .option(
      '--url <url>',
      'Use this server address in the link (default: KEYHOOK_PUBLIC_URL, or the server that runs here)',
    )
    .option('--json', 'Print one line of JSON')
    .action((options: Options) =>
      withInstallation(environment, options, async (installation, output) => {
        const userId = await whoSignsIn(installation, options)
        const { publicUrl, port, dataDir } = installation.config
        const running = installation.isShared ? await readServerAddress(dataDir) : undefined
        const address = options.url ?? publicUrl ?? running ?? `http://127.0.0.1:${port}`
        const url = address.replace(/\/+$/, '') + (await createSignInLink(installation.db, userId))
        output.result({ url }, url)
        output.note(`The link works once, for ${linkMinutes} minutes.`)
      }),
    )
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
  if (!(await userExists(db, user))) throw noSuch('user', user)
  return user
}

const json = ['--json', 'Print one line of JSON'] as const
const pageRows = 500

type Issue = { user?: string; operator?: true; name?: string; ttl: string; json?: boolean }

export function addTokenCommands(program: Command, environment: Environment): void {
  const token = program.command('token').description('Issue login tokens, and issue, list and revoke operator tokens')
  token
    .command('issue')
    .description('Issue a login token or an operator token, and print it')
    .addHelpText(
      ...examples(
        'TOKEN=$(npx keyhook token issue --user usr_… --ttl 1h)',
        'npx keyhook token issue --operator --name gateway --ttl 90d',
      ),
    )
    .option('--user <usr>', 'Issue a login token for this user (usr_…)')
    .option('--operator', 'Issue an operator token, which is for the paths below /operator/v1')
    .option('--name <name>', 'Give the operator token this name, which "token list" shows')
    .option('--ttl <duration>', 'Let the token expire after this time, such as 90s, 15m, 12h or 7d', '12h')
    .option(...json)
    .action((options: Issue) =>
      withInstallation(environment, options, async (installation, output) => {
        const token = await issue(installation, options)
        // Prints only the token, so that TOKEN=$(npx keyhook token issue …) works.
        output.result({ token }, token)
      }),
    )
  token
    .command('list')
    .description('List all operator tokens, the newest first')
    .addHelpText(...examples('npx keyhook token list'))
    .option('--json', 'Print a JSON array on one line')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, ({ db }, output) => output.list(pagesOf(db), (page) => page.map(lineOf))),
    )
  token
    .command('revoke')
    .description('Revoke an operator token; the next request with this token is refused')
    .addHelpText(...examples('npx keyhook token revoke --token tok_…'))
    .requiredOption('--token <tok>', 'Revoke the token with this id (tok_…), which "token list" shows')
    .option(...json)
    .action((options: { token: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const id = idOption('tok', '--token', options.token)
        if (!(await revokeOperatorToken(db, id, null))) throw noSuch('operator token', id)
        output.result({ revoked: id }, `Revoked the operator token ${id}.`)
      }),
    )
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
  if (!(await userExists(db, userId))) throw noSuch('user', userId)
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

async function* pagesOf(db: Database): AsyncGenerator<OperatorTokenRow[]> {
  let before: string | null = null
  for (;;) {
    const page: OperatorTokenRow[] = await listOperatorTokens(db, { before, limit: pageRows })
    if (page.length > 0) yield [...page]
    if (page.length < pageRows) return
    before = page.at(-1)!.id
  }
}

function lineOf({ id, name, created_at, expires_at, revoked_at }: OperatorTokenRow): string {
  const status = revoked_at !== null ? 'revoked' : expires_at < new Date() ? 'expired' : 'active'
  const [from, until] = [created_at, expires_at].map((time) => time.toISOString().slice(0, 16))
  return `${id}  ${status.padEnd(7)}  ${from} to ${until}  ${name ?? ''}`.trimEnd()
}
