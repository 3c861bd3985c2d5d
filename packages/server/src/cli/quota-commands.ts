import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import { operator } from '../access/audit.ts'
import { type QuotaName, type Quotas, quotaNames } from '../access/quotas.ts'
import { sizeText } from '../lib/units.ts'
import { changeQuotas, type QuotaUse, readQuotas } from '../operator/quotas.ts'
import { bytes, count, InvalidValue } from '../settings/setting.ts'
import { idOption } from './directory-commands.ts'
import { operatorCommand } from './installation.ts'

const isSize = (name: QuotaName): boolean => name.endsWith('_bytes')

/** The option of each quota, and what it limits. */
const options: Record<QuotaName, [option: string, what: string]> = {
  keys: ['keys', 'Active API keys'],
  webhooks: ['webhooks', 'Webhooks'],
  databases: ['databases', 'Databases'],
  members: ['members', 'Members'],
  database_bytes: ['database-storage', 'Storage of databases'],
  archive_bytes: ['archive-storage', 'Storage of backups'],
  key_requests: ['key-requests', 'Requests per minute and key'],
  requests: ['requests', 'Requests per minute'],
}

type Given = { org: string } & Record<string, string | undefined>

export function addCommands(program: KeyhookCommand): void {
  const quota = program.command('quota')
  operatorCommand(quota, 'show', 'Show what an organization uses and may use')
    .examples('npx keyhook quota show --org org_…')
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .run(async ({ db, config }, output, { org }: { org: string }) => {
      const quotas = await readQuotas(db, config, idOption('org', '--org', org))
      output.result(quotas, table(quotas))
    })
  operatorCommand(quota, 'set', 'Set what one organization may use; "default" is the limit of the settings again')
    .examples(
      'npx keyhook quota set --org org_… --keys 100 --databases 5 --database-storage 200GB',
      'npx keyhook quota set --org org_… --keys default',
    )
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .option('--keys <number>', 'Allow this many active API keys')
    .option('--webhooks <number>', 'Allow this many webhooks')
    .option('--databases <number>', 'Allow this many databases')
    .option('--members <number>', 'Allow this many members, service members and open invitations together')
    .option(
      '--database-storage <size>',
      'Allow the storage limits of all databases to add up to this size, such as 200GB',
    )
    .option('--archive-storage <size>', 'Allow backups and write-ahead logs of this size together, such as 1TB')
    .option('--key-requests <number>', 'Allow this many requests of each API key in a minute')
    .option('--requests <number>', 'Allow this many requests of all API keys together in a minute')
    .run(async ({ db, config }, output, given: Given) => {
      const orgId = idOption('org', '--org', given.org)
      const changes = changesOf(given)
      if (Object.keys(changes).length === 0) {
        const all = quotaNames.map((name) => `--${options[name][0]}`)
        throw new UsageError(`No quota is given. Add one of ${all.join(', ')}.`)
      }
      await changeQuotas(db, operator, { orgId, changes })
      const quotas = await readQuotas(db, config, orgId)
      output.result(quotas, table(quotas))
    })
}

const changesOf = (given: Given): Partial<Quotas> =>
  Object.fromEntries(
    quotaNames.flatMap((name) => {
      const [option] = options[name]
      const text = given[option.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())]
      return text === undefined ? [] : [[name, text === 'default' ? null : limitIn(name, option, text)]]
    }),
  )

function limitIn(name: QuotaName, option: string, text: string): number {
  const min = name === 'members' || name.endsWith('requests') ? 1 : 0
  try {
    return (isSize(name) ? bytes('0', '1000TB') : count(min, 2_147_483_647, name.replace('key_', '')))(text, {})
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error
    throw new UsageError(`--${option}: ${JSON.stringify(text)} ${error.message}, or "default"`)
  }
}

function table(quotas: QuotaUse): string {
  const shown = (name: QuotaName, value: number | null, absent: string): string =>
    value === null ? absent : isSize(name) ? sizeText(value) : value.toLocaleString('en')
  const line = (cells: readonly string[]) =>
    `${cells[0]!.padEnd(27)}  ${cells[1]!.padStart(13)}  ${cells[2]!.padStart(13)}  ${cells[3]}`.trimEnd()
  return [
    line(['', 'USED', 'LIMIT', '']),
    ...quotaNames.map((name) => {
      const { used, limit, is_own } = quotas[name]
      const own = is_own ? 'of this organization' : ''
      return line([options[name][1], shown(name, used, ''), shown(name, limit, 'no limit'), own])
    }),
  ].join('\n')
}
