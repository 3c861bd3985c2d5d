import { createClient, KeyhookError, type Organization } from '@keyhook/client'
import { createOutput, UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { askSecret, canAsk, readInput } from '../prompt.ts'
import { checkUrl, readCredentials, type SessionOptions } from '../session.ts'
import { recordLines, tableLines } from '../table.ts'
import { configFile, profileName, readProfiles, writeProfiles } from '../user-files.ts'
import { logInWithBrowser } from './browser-login.ts'

/** Where `npm start` listens. */
const defaultUrl = 'http://localhost:8080'

type LoginOptions = { url?: string; org?: string; profile?: string; tokenStdin?: true; browser?: true; json?: boolean }

export function addCommands(program: KeyhookCommand): void {
  program
    .command('login')
    .examples(
      'npx keyhook login --url https://keyhook.example.com',
      'npx keyhook login --browser --url https://keyhook.example.com',
      'npx keyhook token issue --user usr_… | npx keyhook login --token-stdin',
      'npx keyhook login --profile staging --url https://staging.example.com',
    )
    .option('--url <url>', `Log in to the server at this address (default: KEYHOOK_URL, or ${defaultUrl})`)
    .option('--org <org>', 'Use this organization (org_…) with the stored token')
    .option('--profile <name>', 'Store the token under this name (default: "default")')
    .option('--browser', 'Sign in with the web console instead of pasting a token')
    .option('--token-stdin', 'Read the token from standard input instead of asking')
    .option('--json', 'Print the result as one line of JSON')
    .action(login)
  program
    .command('logout')
    .examples('npx keyhook logout', 'npx keyhook logout --profile staging')
    .option('--profile <name>', 'Remove the token of this profile (default: the current profile)')
    .option('--json', 'Print the result as one line of JSON')
    .action(logout)
  program
    .command('whoami')
    .examples('npx keyhook whoami', 'npx keyhook whoami --json')
    .option('--profile <name>', 'Show this profile (default: the current profile)')
    .option('--json', 'Print the result as one line of JSON')
    .action(whoami)
  const profiles = program.command('profiles')
  profiles
    .command('list', { isDefault: true })
    .description('List the servers and organizations that you are logged in to')
    .examples('npx keyhook profiles', 'npx keyhook profiles list --json')
    .option('--json', 'Print the result as one line of JSON')
    .action(listProfiles)
  profiles
    .command('use <name>')
    .description('Make a profile the current one, which commands use by default')
    .examples('npx keyhook profiles use staging')
    .option('--json', 'Print the result as one line of JSON')
    .action(useProfile)
}

async function login(options: LoginOptions): Promise<void> {
  const url = options.url ?? (process.env.KEYHOOK_URL?.trim() || defaultUrl)
  checkUrl('--url', url)
  const name = profileName(options.profile ?? 'default')
  const stored = await readProfiles()
  const token = await readToken(url, options)
  const facts = describeToken(token)
  if (facts.expires_at !== null && Date.parse(facts.expires_at) < Date.now())
    throw new UsageError(`This login token expired at ${facts.expires_at}. Get a new login token from your operator.`)
  // The server decides whether the token is good. Nothing is stored before.
  const organizations = await createClient({ url, token, retries: 0 })
    .organizations.list()
    .toArray()
    .catch((error: unknown) => {
      if (!(error instanceof KeyhookError) || error.status !== 404) throw error
      throw new UsageError(
        `There is no Keyhook at ${url}. Use the address of the server alone, without a path such as /docs.`,
      )
    })
  const chosen = choose(organizations, options.org)
  const profile = { url, token, organization: chosen?.id ?? null }
  await writeProfiles({ current: name, profiles: { ...stored.profiles, [name]: profile } })
  const lines = [`Logged in to ${url} ${tokenText(facts)}.`]
  if (chosen !== null) lines.push(`Organization: ${chosen.id} (${chosen.name})`)
  else if (organizations.length === 0) lines.push('Your user is in no organization yet.')
  else
    lines.push(
      `You are in ${organizations.length} organizations. Choose one for each command with --org, or log in again with --org.`,
    )
  createOutput(options).result({ profile: name, url, organization_id: chosen?.id ?? null }, lines.join('\n'))
}

function choose(organizations: readonly Organization[], wanted: string | undefined): Organization | null {
  if (wanted === undefined) return organizations.length === 1 ? organizations[0]! : null
  const found = organizations.find(({ id }) => id === wanted)
  if (found !== undefined) return found
  const known = organizations.map(({ id, name }) => `\n  ${id}  ${name}`).join('')
  throw new UsageError(`--org: ${JSON.stringify(wanted)} is not one of your organizations.${known}`)
}

async function readToken(url: string, { tokenStdin, browser }: LoginOptions): Promise<string> {
  if (browser && tokenStdin) throw new UsageError('--browser and --token-stdin exclude each other: use one of them.')
  if (browser) return logInWithBrowser(url)
  const given = process.env.KEYHOOK_TOKEN?.trim()
  if (given && !tokenStdin) return checkToken(given)
  if (!tokenStdin && canAsk()) {
    const answer = await askSecret('Paste an API key or a login token (not shown), or press Enter to use the browser: ')
    return answer === '' ? logInWithBrowser(url) : checkToken(answer)
  }
  return checkToken(await readInput())
}

function checkToken(token: string): string {
  if (token === '')
    throw new UsageError('No token was given. Paste an API key or a login token, or pipe it to standard input.')
  if (/[^\x21-\x7e]/.test(token))
    throw new UsageError('The given text is no token: a token has no spaces and no special characters.')
  return token
}

const tokenText = ({ kind, key_prefix, expires_at }: TokenFacts): string =>
  kind === 'api_key'
    ? `with the API key ${key_prefix}`
    : `with a login token${expires_at ? `, valid until ${expires_at}` : ''}`

async function logout(options: { profile?: string; json?: boolean }): Promise<void> {
  const { current, profiles } = await readProfiles()
  const name = profileName(options.profile ?? current)
  if (profiles[name] === undefined)
    throw new UsageError(`There is no profile "${name}", so there is nothing to log out of.`)
  const { [name]: removed, ...rest } = profiles
  const next = name === current ? (Object.keys(rest)[0] ?? 'default') : current
  await writeProfiles({ current: next, profiles: rest })
  const isKey = describeToken(removed!.token).kind === 'api_key'
  const end = isKey
    ? 'The API key is still valid until you revoke the key with "keyhook keys revoke".'
    : 'The login token is still valid until it expires, or until you sign out in the browser that confirmed it.'
  const text = `Logged out of ${removed!.url}. ${end}`
  createOutput(options).result({ profile: name, url: removed!.url }, text)
}

async function whoami(options: SessionOptions): Promise<void> {
  const { url, token, profile, organization } = await readCredentials(options)
  const organizations = await createClient({ url, token }).organizations.list().toArray()
  const facts = describeToken(token)
  const chosen =
    organizations.find(({ id }) => id === organization) ?? (organizations.length === 1 ? organizations[0]! : null)
  const record = { profile, url, organization_id: chosen?.id ?? null, organizations, token: facts }
  const lines = recordLines({
    Server: url,
    Profile: profile,
    Organization: chosen === null ? `none chosen of ${organizations.length}` : `${chosen.id} (${chosen.name})`,
    Token: facts.kind === 'api_key' ? `API key ${facts.key_prefix}` : 'login token',
    User: facts.user_id ?? undefined,
    Expires: facts.expires_at ?? undefined,
  })
  createOutput(options).result(record, lines.join('\n'))
}

async function listProfiles(options: { json?: boolean }): Promise<void> {
  const { current, profiles } = await readProfiles()
  const rows = Object.entries(profiles).map(([name, { url, organization, token }]) => {
    const { kind, expires_at } = describeToken(token)
    return { name, current: name === current, url, organization_id: organization, token: kind, expires_at }
  })
  const lines = tableLines(
    [
      { title: '', of: (row) => (row.current ? '*' : ' ') },
      { title: 'PROFILE', of: ({ name }) => name },
      { title: 'SERVER', of: ({ url }) => url, mayShrink: true },
      { title: 'ORGANIZATION', of: ({ organization_id }) => organization_id },
    ],
    rows,
  )
  const text = rows.length === 0 ? 'You are not logged in to any server. Run: npx keyhook login' : lines.join('\n')
  createOutput(options).result(rows, text)
}

async function useProfile(name: string, options: { json?: boolean }): Promise<void> {
  const { profiles } = await readProfiles()
  const profile = profiles[profileName(name)]
  if (profile === undefined) throw new UsageError(`There is no profile "${name}" in ${configFile()}.`)
  await writeProfiles({ current: name, profiles })
  createOutput(options).result(
    { profile: name, url: profile.url },
    `Commands use the profile "${name}" (${profile.url}) from now on.`,
  )
}

type TokenFacts = {
  kind: 'api_key' | 'login'
  key_prefix: string | null
  user_id: string | null
  expires_at: string | null
}

/** What a token says about itself. Only the server can tell whether it is true, so this is for people alone. */
function describeToken(token: string): TokenFacts {
  const key = /^([a-z][a-z0-9]{0,9}_[0-9A-Za-z]{8})_[0-9A-Za-z]{32}$/.exec(token)
  if (key !== null) return { kind: 'api_key', key_prefix: key[1]!, user_id: null, expires_at: null }
  const { sub, exp } = claimsOf(token)
  const isTime = typeof exp === 'number' && Math.abs(exp) < 8.64e12
  return {
    kind: 'login',
    key_prefix: null,
    user_id: typeof sub === 'string' ? sub : null,
    expires_at: isTime ? new Date(exp * 1_000).toISOString() : null,
  }
}

function claimsOf(token: string): { sub?: unknown; exp?: unknown } {
  try {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null ? claims : {}
  } catch {
    return {}
  }
}
