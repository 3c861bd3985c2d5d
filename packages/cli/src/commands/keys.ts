import type {
  ApiKeyChanges,
  ApiKeyDetails,
  Client,
  KeyLifetime,
  KeyPermission,
  NewRestrictedApiKey,
} from '@keyhook/client'
import { Option } from 'commander'
import { databaseIdOf, durationMs, durationSeconds, timestampAfter, typesOf } from '../arguments.ts'
import { UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { confirm } from '../prompt.ts'
import { customerCommand } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, recordLines, shortTime, timeText } from '../table.ts'

const unusedDaysMin = 90

function statusOf(key: ApiKeyDetails): string {
  if (key.leaked_at !== null) return 'leaked'
  if (key.expired) return 'expired'
  const days = (Date.now() - Date.parse(key.last_used_at ?? key.created_at)) / 86_400_000
  return key.status === 'active' && days >= unusedDaysMin ? `unused for ${Math.floor(days)}d` : key.status
}

const columns: Column<ApiKeyDetails>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name, mayShrink: true },
  { title: 'PREFIX', of: ({ key_prefix }) => key_prefix },
  { title: 'STATUS', of: statusOf, style: statusText },
  { title: 'LAST USED (UTC)', of: ({ last_used_at }) => shortTime(last_used_at), mayShrink: true },
  { title: 'EXPIRES', of: ({ expires_at }) => expires_at?.slice(0, 10) ?? 'never', isExtra: true },
  { title: 'LIMITED', of: (key) => (isLimited(key) ? 'yes' : 'no'), isExtra: true },
]

const isLimited = ({ permissions, databases, allowed_networks }: ApiKeyDetails): boolean =>
  [permissions, databases, allowed_networks].some((limit) => limit !== null)

type ListFilter = { status: 'active' | 'revoked' | 'all'; unused?: string }

type LimitOptions = { permissions?: string; databases?: string; networks?: string; expires?: string }

/** What a key is limited to. "none" removes a limit. */
const withLimits = <C extends KeyhookCommand>(command: C): C =>
  command
    .option('--permissions <list>', 'Allow only these permissions, separated by commas; "none" removes the limit')
    .option('--databases <list>', 'Allow only these databases, by id or name, separated by commas; "none" allows all')
    .option(
      '--networks <list>',
      'Allow only requests from these networks (CIDRs), separated by commas; "none" allows all',
    )
    .option('--expires <duration>', 'End the key after this time, such as 90d; "none" for never')

async function limitsOf(client: Client, options: LimitOptions): Promise<ApiKeyChanges> {
  const listed = (text: string) => (text === 'none' ? null : typesOf(text))
  const { permissions, databases, networks, expires } = options
  return {
    ...(permissions !== undefined && { permissions: listed(permissions) as KeyPermission[] | null }),
    ...(databases !== undefined && {
      databases:
        databases === 'none' ? null : await Promise.all(typesOf(databases).map((one) => databaseIdOf(client, one))),
    }),
    ...(networks !== undefined && { allowed_networks: listed(networks) }),
    ...(expires !== undefined && { expires_at: expires === 'none' ? null : timestampAfter('--expires', expires) }),
  }
}

export function addCommands(program: KeyhookCommand): void {
  const keys = program.command('keys')
  const create = customerCommand(keys, 'create', 'Create an API key; the key is shown once')
    .examples(
      'npx keyhook keys create --name ci',
      'npx keyhook keys create --name report --preset read_only --expires 90d --networks 203.0.113.0/24',
      'npx keyhook keys create --name ci --for usr_…',
      'KEY=$(npx keyhook keys create --name ci --json | jq -r .api_key)',
    )
    .requiredOption('--name <name>', 'Give the new key this name')
    .option('--for <usr>', 'Let the key act as this service member (usr_…); only owners can do that, logged in')
    .addOption(
      new Option('--preset <preset>', 'Allow the permissions of this preset; not together with --permissions').choices([
        'read_only',
        'webhooks',
        'databases',
      ]),
    )
  withLimits(create).run(async ({ client, output }, options: Creation) => {
    const { name, preset, for: serviceMember } = options
    const limits = await limitsOf(client, options)
    const isRestricted = preset !== undefined || Object.keys(limits).length > 0
    const restricted = { name, ...limits, ...(preset && { preset }) }
    const key =
      serviceMember !== undefined
        ? await client.serviceMembers.createKey(serviceMember, restricted)
        : isRestricted
          ? await client.keys.createRestricted(restricted)
          : await client.keys.create({ name })
    output.result(key, `Created the key ${key.id} (${key.name}). ${shownOnce(key.api_key)}`)
  })
  customerCommand(keys, 'list', 'List API keys, newest first')
    .examples('npx keyhook keys list --status all', 'npx keyhook keys list --unused 90d')
    .addOption(
      new Option('--status <status>', 'List keys with this status')
        .choices(['active', 'revoked', 'all'])
        .default('active'),
    )
    .option('--unused <duration>', 'List only keys that were neither created nor used for this time, such as 90d')
    .list(
      'API keys',
      columns,
      ({ status, unused }: ListFilter) =>
        status === 'active' && unused === undefined
          ? 'The organization has no active API keys. Create a key: npx keyhook keys create --name ci'
          : 'The organization has no such API keys.',
      (client, limit, { status, unused }: ListFilter) =>
        client.keys.details({
          status,
          limit,
          unusedDays: unused === undefined ? undefined : daysOf('--unused', unused),
        }),
    )
  customerCommand(keys, 'show <key>', 'Show an API key and what it is limited to')
    .examples('npx keyhook keys show key_…')
    .run(async ({ client, output }, _: object, id: string) => {
      const key = await client.keys.get(id)
      output.result(key, details(key))
    })
  const update = customerCommand(keys, 'update <key>', 'Rename an API key, or change what it is limited to')
    .examples('npx keyhook keys update key_… --permissions webhooks:read --expires 30d')
    .option('--name <name>', 'Give the key this name')
  withLimits(update).run(async ({ client, output }, options: LimitOptions & { name?: string }, id: string) => {
    const changes = { ...(await limitsOf(client, options)), ...(options.name !== undefined && { name: options.name }) }
    if (Object.keys(changes).length === 0) {
      throw new UsageError('No change is given. Add --name, --permissions, --databases, --networks or --expires.')
    }
    const key = await client.keys.update(id, changes)
    output.result(key, details(key))
  })
  customerCommand(keys, 'lifetime', 'Show or set how long new API keys last at most')
    .examples('npx keyhook keys lifetime', 'npx keyhook keys lifetime --max 90d')
    .option(
      '--max <duration>',
      'End keys that are created from now on after this time, such as 90d; "none": as the operator has set it. Only owners can do that, logged in',
    )
    .run(async ({ client, output }, { max }: { max?: string }) => {
      const lifetime =
        max === undefined
          ? await client.keys.lifetime()
          : await client.keys.setLifetime({ days_max: max === 'none' ? null : daysOf('--max', max) })
      output.result(lifetime, lifetimeText(lifetime))
    })
  customerCommand(keys, 'rotate <key>', 'Create a successor of an API key, and end the key after an overlap')
    .examples('npx keyhook keys rotate key_…', 'npx keyhook keys rotate key_… --overlap 0s --expires 90d')
    .option('--overlap <duration>', 'Keep the old key valid for this time, such as 0s or 24h', '1h')
    .option('--expires <duration>', 'End the new key after this time; as the old key if absent')
    .run(async ({ client, output }, options: { overlap: string; expires?: string }, id: string) => {
      const limits = await limitsOf(client, { ...(options.expires !== undefined && { expires: options.expires }) })
      const overlapMs = durationMs('--overlap', options.overlap)
      const key = await client.keys.rotate(id, {
        overlap_seconds: overlapMs / 1_000,
        ...(limits.expires_at !== undefined && { expires_at: limits.expires_at }),
      })
      const end = overlapMs === 0 ? 'has ended' : `ends in ${options.overlap} at the latest`
      output.result(key, `Created the key ${key.id} in place of ${id}, which ${end}. ${shownOnce(key.api_key)}`)
    })
  customerCommand(keys, 'revoke <key>', 'Revoke an API key; the next request with the key is refused')
    .examples('npx keyhook keys revoke key_…', 'npx keyhook keys revoke key_… --descendants --yes')
    .option('--descendants', 'Also revoke every key that was created with this key, directly or not')
    .option('--yes', 'Revoke without asking for confirmation')
    .run(async ({ client, output }, options: { descendants?: true; yes?: boolean }, key: string): Promise<void> => {
      const which = options.descendants
        ? `the API key ${key} and every key that descends from it`
        : `the API key ${key}`
      await confirm(`This revokes ${which}. A revoked key cannot be used again.`, options)
      const revoked = options.descendants ? (await client.keys.revokeWithDescendants(key)).revoked : [key]
      if (!options.descendants) await client.keys.revoke(key)
      output.result({ revoked }, `Revoked ${revoked.join(', ')}.`)
    })
}

type Creation = LimitOptions & { name: string; for?: string; preset?: NonNullable<NewRestrictedApiKey['preset']> }

const shownOnce = (apiKey: string) => `The API key is shown once, so store it now:\n\n  ${styled('bold', apiKey)}\n`

function lifetimeText({ days_max, operator_days_max }: KeyLifetime): string {
  const days = Math.min(days_max ?? Infinity, operator_days_max ?? Infinity)
  if (days === Infinity) return 'New keys may last for ever.'
  return `New keys last at most ${days} ${days === 1 ? 'day' : 'days'}, as the ${days === days_max ? 'organization' : 'operator'} has set it.`
}

function daysOf(option: string, text: string): number {
  const days = (durationSeconds(text) ?? 0) / 86_400
  if (Number.isInteger(days) && days > 0) return days
  throw new UsageError(`${option}: ${JSON.stringify(text)} is not a number of whole days such as 90d.`)
}

const details = (key: ApiKeyDetails): string =>
  recordLines({
    Id: key.id,
    Name: key.name,
    Prefix: key.key_prefix,
    Status: statusOf(key),
    Leaked:
      key.leaked_at === null
        ? undefined
        : `${timeText(key.leaked_at)}, found at ${key.leaked_url ?? 'a place that was not named'}`,
    Permissions: key.permissions?.join(', ') ?? 'all of its user',
    Databases: key.databases?.join(', ') ?? 'all',
    Networks: key.allowed_networks?.join(', ') ?? 'all',
    Expires: key.expires_at === null ? 'never' : timeText(key.expires_at),
    Created: timeText(key.created_at),
    'Last used': key.last_used_at === null ? 'never' : timeText(key.last_used_at),
    Refused:
      key.refused.count === 0 ? undefined : `${key.refused.count} times, the last from ${key.refused.last_address}`,
  }).join('\n')
