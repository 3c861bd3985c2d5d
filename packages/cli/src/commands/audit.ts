import type { AuditEntry } from '@keyhook/client'
import type { Command } from 'commander'
import { customerCommand, inSession, type SessionOptions } from '../session.ts'
import { type Column, limitOption, pageSize, printList, shortTime } from '../table.ts'

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
    .option(...limitOption('changes'))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }) => {
        const list = client.audit.list({ limit: pageSize(options.limit) })
        await printList(output, options, list, columns, 'No change is recorded yet.')
      }),
    )
}
