import { type Client, createClient, KeyhookError, type List } from '@keyhook/client'
import type { Command } from 'commander'
import { checkIds } from './arguments.ts'
import { createOutput, NotLoggedIn, type Output, UsageError } from './output.ts'
import { KeyhookCommand } from './program.ts'
import { type Column, type ListOptions, limitOption, pageSize, printList } from './table.ts'
import { profileName, readProfiles } from './user-files.ts'

/** Options of every customer command. */
export type SessionOptions = { profile?: string; org?: string; json?: boolean }

export type Session = { client: Client; url: string; token: string; profile: string; orgId: string; output: Output }

type Credentials = { url: string; token: string; profile: string; organization: string | null }

/**
 * A command over HTTP, with the options that all of them have. `usage` includes its arguments: `revoke <key>`. Without a summary it
 * has the one of the table of commands.
 */
export function customerCommand(parent: Command, usage: string, summary = ''): CustomerCommand {
  const [name, ...args] = usage.split(' ')
  const command = sessionOptions(new CustomerCommand(name)).copyInheritedSettings(parent)
  for (const one of args) command.argument(one)
  parent.addCommand(command.description(summary))
  return command
}

export const sessionOptions = <C extends Command>(command: C): C =>
  command
    .option('--org <org>', 'Use this organization (org_…); needed if you are in several')
    .option('--profile <name>', 'Use this profile of "keyhook login"')
    .option('--json', 'Print the records of the API as JSON')

class CustomerCommand extends KeyhookCommand {
  /** Commander passes the arguments, then the options, then the command. */
  run<Options extends object, Args extends (string | undefined)[]>(
    work: (session: Session, options: Options, ...args: Args) => Promise<void>,
  ): this {
    return this.action(async (...given: unknown[]) => {
      const options = given.at(-2) as Options
      checkIds(this)
      await work(await openSession(options), options, ...(given.slice(0, -2) as Args))
    })
  }

  /** Prints a list, with the option --limit. `read` gets the size of a page. */
  list<Row extends object, Options extends object, Args extends string[]>(
    records: string,
    columns: readonly Column<Row>[],
    empty: string | ((options: Options) => string),
    read: (client: Client, limit: number, options: Options, ...args: Args) => List<Row> | Promise<List<Row>>,
  ): this {
    return this.option(...limitOption(records)).run<Options & ListOptions, Args>(
      async ({ client, output }, options, ...args) => {
        const rows = await read(client, pageSize(options.limit), options, ...args)
        await printList(output, options, rows, columns, typeof empty === 'string' ? empty : empty(options))
      },
    )
  }
}

/** From the environment, then from the profile. A token never goes to another server than the one that it was stored for. */
export async function readCredentials(options: SessionOptions): Promise<Credentials> {
  const { current, profiles } = await readProfiles()
  const name = options.profile === undefined ? current : profileName(options.profile)
  const profile = profiles[name]
  if (options.profile !== undefined && profile === undefined)
    throw new UsageError(`There is no profile "${name}". "npx keyhook profiles" lists the profiles.`)
  const env = (variable: string) => process.env[variable]?.trim() || undefined
  const [envUrl, envToken] = [env('KEYHOOK_URL'), env('KEYHOOK_TOKEN')]
  const url = envUrl ?? profile?.url
  if (url === undefined) {
    if (envToken !== undefined)
      throw new UsageError(
        'KEYHOOK_TOKEN is set, but KEYHOOK_URL is not. Set KEYHOOK_URL to the address of the server.',
      )
    throw new NotLoggedIn(
      'You are not logged in. Run: npx keyhook login --url URL (or set KEYHOOK_URL and KEYHOOK_TOKEN)',
    )
  }
  checkUrl(envUrl === undefined ? `profile ${name}` : 'KEYHOOK_URL', url)
  const isOther = envUrl !== undefined && profile !== undefined && originOf(envUrl) !== originOf(profile.url)
  const token = envToken ?? (isOther ? undefined : profile?.token)
  if (token === undefined) {
    throw new NotLoggedIn(
      isOther
        ? `KEYHOOK_URL is ${url}, and profile "${name}" has a token for ${profile.url}. Set KEYHOOK_TOKEN too.`
        : 'KEYHOOK_URL is set, but there is no token for that server. Set KEYHOOK_TOKEN, or run: npx keyhook login',
    )
  }
  const isProfile = envUrl === undefined && envToken === undefined
  const organization = options.org ?? env('KEYHOOK_ORG') ?? (isProfile ? profile!.organization : null)
  return { url, token, profile: name, organization }
}

export async function openSession(options: SessionOptions): Promise<Session> {
  const credentials = await readCredentials(options)
  const { url, token, profile } = credentials
  const output = createOutput(options)
  const server = { url, token, fetch: notingWaits(output) }
  const orgId = credentials.organization ?? (await onlyOrganization(createClient(server)))
  const client = createClient({ ...server, organization: orgId })
  return { client, url, token, profile, orgId, output }
}

/** The client waits up to a minute before it sends such a request again. Without a word the command would seem to hang. */
const notingWaits =
  (output: Output): typeof fetch =>
  async (input, init) => {
    const response = await fetch(input, init)
    const seconds = Number(response.headers.get('retry-after'))
    if (response.status === 429 && seconds > 0)
      output.note(`Too many requests. The server asks to wait ${seconds} seconds.`)
    return response
  }

/** With one organization there is nothing to choose. */
async function onlyOrganization(client: Client): Promise<string> {
  const { items, next } = await client.organizations
    .list({ limit: 20 })
    .page()
    .catch((error) => {
      if (!(error instanceof KeyhookError) || error.code !== 'auth.key_restricted') throw error
      throw new UsageError(`${error.message}\nName the organization of the key with --org or KEYHOOK_ORG.`)
    })
  if (items.length === 1) return items[0]!.id
  if (items.length === 0)
    throw new UsageError(
      'Your user is in no organization. Ask an operator to add you to an organization (keyhook member set).',
    )
  const lines = items.map(({ id, name }) => `  ${id}  ${name}`)
  if (next !== null) lines.push('  …')
  throw new UsageError(`You are in several organizations. Choose one with --org or KEYHOOK_ORG:\n${lines.join('\n')}`)
}

export function checkUrl(what: string, text: string): void {
  const url = httpUrl(text)
  if (url === null)
    throw new UsageError(`${what}: ${JSON.stringify(text)} is not an address such as https://keyhook.example.com.`)
  if (url.username || url.password || url.search || url.hash)
    throw new UsageError(`${what}: the address must have no user name, password, query or fragment.`)
  if (/\/(api|platform|operator)\/v1\/*$/.test(url.pathname))
    throw new UsageError(`${what}: ${JSON.stringify(text)} is an address inside the API: leave out /api/v1.`)
}

/** Null if the text is no http:// or https:// address. */
export function httpUrl(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null
  return url !== null && /^https?:$/.test(url.protocol) ? url : null
}

const originOf = (url: string): string => new URL(url).origin
