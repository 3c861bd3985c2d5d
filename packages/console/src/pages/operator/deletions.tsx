import type { Deletion } from '@keyhook/client'
import { useList } from '../../api/lists.ts'
import { operatorClient } from '../../api/operator.ts'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { RelativeTime } from '../../components/time.tsx'

export const deletionsKey = ['operator', 'deletions']

const refetchMs = 3_000

const columns: Column<Deletion>[] = [
  { label: 'Deleted', cell: ({ target_id }) => <IdChip id={target_id} /> },
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

const rowsOf = ({ deleted }: Deletion): string =>
  Object.entries(deleted)
    .map(([table, rows]) => `${rows} ${table.replaceAll('_', ' ')}`)
    .join(', ')
