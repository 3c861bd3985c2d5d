import type { ApiKey } from '@keyhook/client'
import { Option } from 'commander'
import type { KeyhookCommand } from '../program.ts'
import { confirm } from '../prompt.ts'
import { customerCommand } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, shortTime } from '../table.ts'

const columns: Column<ApiKey>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name, mayShrink: true },
  { title: 'PREFIX', of: ({ key_prefix }) => key_prefix },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'LAST USED (UTC)', of: ({ last_used_at }) => shortTime(last_used_at), mayShrink: true },
]

type Status = 'active' | 'revoked' | 'all'

export function addCommands(program: KeyhookCommand): void {
  const keys = program.command('keys')
  customerCommand(keys, 'create', 'Create an API key; the key is shown once')
    .examples('npx keyhook keys create --name ci', 'KEY=$(npx keyhook keys create --name ci --json | jq -r .api_key)')
    .requiredOption('--name <name>', 'Give the new key this name')
    .run(async ({ client, output }, options: { name: string }) => {
      const key = await client.keys.create({ name: options.name })
      output.result(
        key,
        `Created the key ${key.id} (${key.name}). The API key is shown once, so store it now:\n\n  ${styled('bold', key.api_key)}\n`,
      )
    })
  customerCommand(keys, 'list', 'List API keys, newest first')
    .examples('npx keyhook keys list --status all')
    .addOption(
      new Option('--status <status>', 'List keys with this status')
        .choices(['active', 'revoked', 'all'])
        .default('active'),
    )
    .list(
      'API keys',
      columns,
      'The organization has no such API keys. Create a key: npx keyhook keys create --name ci',
      (client, limit, { status }: { status: Status }) => client.keys.list({ status, limit }),
    )
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
