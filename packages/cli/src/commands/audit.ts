import type { AuditEntry } from '@keyhook/client'
import type { KeyhookCommand } from '../program.ts'
import { customerCommand } from '../session.ts'
import { type Column, shortTime } from '../table.ts'

const columns: Column<AuditEntry>[] = [
  { title: 'TIME (UTC)', of: ({ at }) => shortTime(at) },
  { title: 'ACTION', of: ({ action }) => action },
  {
    title: 'WHO',
    of: ({ actor }) =>
      actor.kind === 'key' ? (actor.key_name ?? actor.credential) : (actor.name ?? actor.user_id ?? actor.kind),
    mayShrink: true,
  },
  { title: 'TARGET', of: ({ target_id, target_name }) => target_name ?? target_id, mayShrink: true },
]

export function addCommands(program: KeyhookCommand): void {
  customerCommand(program, 'audit')
    .examples('npx keyhook audit --limit 20', 'npx keyhook audit --limit all --json > audit.json')
    .list('changes', columns, 'No change is recorded yet.', (client, limit) => client.audit.list({ limit }))
}
