import { createClient, KeyhookError, type Organization } from '@keyhook/client'
import type { Command } from 'commander'
import { logInWithBrowser } from './browser-login.ts'
import { examples } from './examples.ts'
import { createOutput, UsageError } from './output.ts'
import { configFile, profileName, readProfiles, writeProfiles } from './profiles.ts'
import { askSecret, canAsk, readInput } from './prompt.ts'
import { checkUrl, readCredentials, type SessionOptions } from './session.ts'
import { recordLines, tableLines } from './table.ts'
import { describeToken, type TokenFacts } from './token-facts.ts'

/** Where `npm start` listens. */
const defaultUrl = 'http://127.0.0.1:8080'

type LoginOptions = { url?: string; org?: string; profile?: string; tokenStdin?: true; browser?: true; json?: boolean }

export function addLoginCommands(program: Command): void {
  program
    .command('login')
    .addHelpText(
      ...examples(
        'npx keyhook login --url https://keyhook.example.com',
        'npx keyhook login --browser --url https://keyhook.example.com',
        'npx keyhook token issue --user usr_… | npx keyhook login --token-stdin',
        'npx keyhook login --profile staging --url https://staging.example.com',
      ),
    )
    .option('--url <url>', `Address of the server (KEYHOOK_URL, or ${defaultUrl})`)
    .option('--org <org>', 'Organization to use, if you are in several')
    .option('--profile <name>', 'Store it under this name; without it, "default"')
    .option('--browser', 'Sign in with the web console instead of pasting a token')
    .option('--token-stdin', 'Read the token from standard input instead of asking')
    .option('--json', 'Print one line of JSON')
    .action(login)
  program
    .command('logout')
    .addHelpText(...examples('npx keyhook logout', 'npx keyhook logout --profile staging'))
    .option('--profile <name>', 'Profile to remove; the current one without it')
    .option('--json', 'Print one line of JSON')
    .action(logout)
  program
    .command('whoami')
    .addHelpText(...examples('npx keyhook whoami', 'npx keyhook whoami --json'))
    .option('--profile <name>', 'Another profile than the current one')
    .option('--json', 'Print one line of JSON')
    .action(whoami)
  const profiles = program.command('profiles')
  profiles
    .command('list', { isDefault: true })
    .description('List the servers and organizations that you are logged in to')
    .addHelpText(...examples('npx keyhook profiles', 'npx keyhook profiles list --json'))
    .option('--json', 'Print one line of JSON')
    .action(listProfiles)
  profiles
    .command('use <name>')
    .description('Use this profile from now on')
    .addHelpText(...examples('npx keyhook profiles use staging'))
    .option('--json', 'Print one line of JSON')
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
    throw new UsageError(`This login token expired at ${facts.expires_at}. Get a new one from your operator.`)
  // The server decides whether the token is good. Nothing is stored before.
  const organizations = await createClient({ url, token, retries: 0 })
    .organizations.list()
    .toArray()
    .catch((error: unknown) => {
      if (!(error instanceof KeyhookError) || error.status !== 404) throw error
      throw new UsageError(`There is no Keyhook at ${url}. It is the address alone, without a path such as /docs.`)
    })
  const chosen = choose(organizations, options.org)
  const profile = { url, token, organization: chosen?.id ?? null }
  await writeProfiles({ current: name, profiles: { ...stored.profiles, [name]: profile } })
  const lines = [`Logged in to ${url} ${tokenText(facts)}.`]
  if (chosen !== null) lines.push(`Organization: ${chosen.id} (${chosen.name})`)
  else if (organizations.length === 0) lines.push('You are in no organization yet.')
  else lines.push(`You are in ${organizations.length} organizations: name one with --org, or log in with --org.`)
  createOutput(options.json ?? false).result(
    { profile: name, url, organization_id: chosen?.id ?? null },
    lines.join('\n'),
  )
}

function choose(organizations: readonly Organization[], wanted: string | undefined): Organization | null {
  if (wanted === undefined) return organizations.length === 1 ? organizations[0]! : null
  const found = organizations.find(({ id }) => id === wanted)
  if (found !== undefined) return found
  const known = organizations.map(({ id, name }) => `\n  ${id}  ${name}`).join('')
  throw new UsageError(`--org: ${JSON.stringify(wanted)} is not one of your organizations.${known}`)
}

async function readToken(url: string, { tokenStdin, browser }: LoginOptions): Promise<string> {
  if (browser && tokenStdin) throw new UsageError('--browser and --token-stdin exclude each other')
  if (browser) return logInWithBrowser(url)
  const given = process.env.KEYHOOK_TOKEN?.trim()
  if (given && !tokenStdin) return checkToken(given)
  if (!tokenStdin && canAsk()) {
    const answer = await askSecret('API key or login token (not shown); just Enter to use the browser: ')
    return answer === '' ? logInWithBrowser(url) : checkToken(answer)
  }
  return checkToken(await readInput())
}

function checkToken(token: string): string {
  if (token === '') throw new UsageError('There is no token. Paste an API key or a login token, or pipe one in.')
  if (/[^\x21-\x7e]/.test(token)) throw new UsageError('This is no token: it has spaces or other special characters.')
  return token
}

const tokenText = ({ kind, key_prefix, expires_at }: TokenFacts): string =>
  kind === 'api_key'
    ? `with the API key ${key_prefix}`
    : `with a login token${expires_at ? `, valid until ${expires_at}` : ''}`

async function logout(options: { profile?: string; json?: boolean }): Promise<void> {
  const { current, profiles } = await readProfiles()
  const name = profileName(options.profile ?? current)
  if (profiles[name] === undefined) throw new UsageError(`You are not logged in as profile "${name}".`)
  const { [name]: removed, ...rest } = profiles
  const next = name === current ? (Object.keys(rest)[0] ?? 'default') : current
  await writeProfiles({ current: next, profiles: rest })
  const isKey = describeToken(removed!.token).kind === 'api_key'
  const end = isKey ? '"keyhook keys revoke" ends an API key.' : 'one from the browser ends when you sign out there.'
  const text = `Logged out of ${removed!.url}. The token itself is still valid: ${end}`
  createOutput(options.json ?? false).result({ profile: name, url: removed!.url }, text)
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
    Organization: chosen === null ? `${organizations.length}, none chosen` : `${chosen.id} (${chosen.name})`,
    Token: facts.kind === 'api_key' ? `API key ${facts.key_prefix}` : 'login token',
    User: facts.user_id ?? undefined,
    Expires: facts.expires_at ?? undefined,
  })
  createOutput(options.json ?? false).result(record, lines.join('\n'))
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
  const text = rows.length === 0 ? 'No profiles. Run: npx keyhook login' : lines.join('\n')
  createOutput(options.json ?? false).result(rows, text)
}

async function useProfile(name: string, options: { json?: boolean }): Promise<void> {
  const { profiles } = await readProfiles()
  const profile = profiles[profileName(name)]
  if (profile === undefined) throw new UsageError(`There is no profile "${name}" in ${configFile()}.`)
  await writeProfiles({ current: name, profiles })
  createOutput(options.json ?? false).result({ profile: name, url: profile.url }, `Using ${profile.url} from now on.`)
}
