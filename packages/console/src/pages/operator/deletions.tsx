import type { Deletion } from '@keyhook/client'
import { useList } from '../../api/lists.ts'
import { operatorClient } from '../../api/operator.ts'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { countText } from '../../words/numbers.ts'

export const deletionsKey = ['operator', 'deletions']

const refetchMs = 3_000

const columns: Column<Deletion>[] = [
  {
    label: 'Deleted',
    cell: ({ kind, target_id }) => (
      <div>
        <span className="cell-title">{kind === 'user' ? 'User' : 'Organization'}</span>
        <div className="small">
          <IdChip id={target_id} />
        </div>
      </div>
    ),
  },
  { label: 'When', cell: ({ requested_at }) => <RelativeTime at={requested_at} /> },
  {
    label: 'Erased',
    cell: (deletion) => (
      <div>
        {stateOf(deletion)}
        <div className="small muted break">{rowsOf(deletion)}</div>
      </div>
    ),
  },
]

/** Newest first. Nothing is shown before the first one. */
export function Deletions() {
  const deletions = useList(deletionsKey, (options) => operatorClient.deletions.list(options), {
    refetchInterval: refetchMs,
  })
  if (deletions.rows === undefined || deletions.rows.length === 0) return null
  return (
    <section className="card" aria-label="Deletions">
      <div className="card-header">
        <h2>Deletions</h2>
      </div>
      <DataTable {...deletions} label="Deletions" columns={columns} rowKey={({ id }) => id} empty={null} />
    </section>
  )
}

const stateOf = ({ finished_at, waits_for }: Deletion) => {
  if (finished_at !== null) return <RelativeTime at={finished_at} />
  return waits_for === null ? 'Running' : `Waiting for ${waits_for}`
}

/** Tables that people know. The rows of all others are records. */
const words: Record<string, string> = {
  databases: 'databases',
  backups: 'backups',
  stored_objects: 'stored files',
  webhooks: 'webhooks',
  events: 'events',
  attempts: 'attempts',
  api_keys: 'API keys',
  memberships: 'memberships',
  users: 'users',
  invitations: 'invitations',
  invoices: 'invoices',
  audit_entries: 'entries of the audit log',
  passkeys: 'passkeys',
  console_sessions: 'sessions',
}

function rowsOf({ deleted }: Deletion): string {
  const known = Object.keys(words).filter((table) => table in deleted)
  const rest = Object.entries(deleted).reduce((sum, [table, rows]) => (table in words ? sum : sum + rows), 0)
  const parts = known.map((table) => `${words[table]}: ${countText(deleted[table]!)}`)
  return [...parts, ...(rest > 0 ? [`other records: ${countText(rest)}`] : [])].join(' · ')
}
