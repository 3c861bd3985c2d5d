import type { AuditEntry } from '@keyhook/client'
import type { Command } from 'commander'
import { customerCommand, inSession } from './customer-command.ts'
import { limitDefault, pageSize, printList } from './list-output.ts'
import type { SessionOptions } from './session.ts'
import { type Column, shortTime } from './table.ts'

const columns: Column<AuditEntry>[] = [
  { title: 'TIME (UTC)', of: ({ at }) => shortTime(at) },
  { title: 'ACTION', of: ({ action }) => action },
  {
    title: 'WHO',
    of: ({ actor }) => (actor.kind === 'key' ? actor.credential : (actor.user_id ?? actor.kind)),
    mayShrink: true,
  },
  { title: 'TARGET', of: ({ target_id }) => target_id, mayShrink: true },
]

export function addAuditCommand(program: Command): void {
  customerCommand(
    program,
    'audit',
    'Show who changed what, newest first',
    'npx keyhook audit --limit 20',
    'npx keyhook audit --limit all --json > audit.json',
  )
    .option('--limit <n>', 'How many, or "all"', String(limitDefault))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }) => {
        await printList(
          output,
          options,
          client.audit.list({ limit: pageSize(options.limit) }),
          columns,
          'Nothing was changed yet.',
        )
      }),
    )
}
