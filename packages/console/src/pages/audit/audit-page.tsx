import type { AuditAction, AuditEntry } from '@keyhook/client'
import { getRouteApi } from '@tanstack/react-router'
import { ScrollText, SearchX } from 'lucide-react'
import { useMemo, useState } from 'react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { Button } from '../../components/button.tsx'
import { Json } from '../../components/code.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { PageHeader } from '../../components/page.tsx'
import { PersonName } from '../../components/person.tsx'
import { EmptyState } from '../../components/states.tsx'
import { exactText, RelativeTime } from '../../components/time.tsx'
import { type AuditSearch, rangeMs } from '../../search.ts'
import { AuditFilters } from './audit-filters.tsx'
import { actionText } from './audit-words.ts'

const route = getRouteApi('/$orgId/audit')

export function AuditPage() {
  const { orgId } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [shown, setShown] = useState<AuditEntry | null>(null)
  const since = useMemo(
    () => (search.range === undefined ? undefined : new Date(Date.now() - rangeMs(search.range)).toISOString()),
    [search.range],
  )
  const { action, actor } = search
  const entries = useList(
    [orgId, 'audit', search],
    (options) =>
      client.audit.list({ ...options, organization: orgId, action: action as AuditAction | undefined, actor, since }),
    { refetchInterval: 10_000 },
  )
  const isFiltered = Object.values(search).some((value) => value !== undefined)
  const columns: Column<AuditEntry>[] = [
    {
      label: 'What',
      cell: (entry) => (
        <button type="button" className="link-button cell-title" onClick={() => setShown(entry)}>
          {actionText(entry.action)}
        </button>
      ),
    },
    { label: 'Target', cell: (entry) => <IdChip id={entry.target_id} short /> },
    { label: 'By', cell: (entry) => <Actor entry={entry} /> },
    { label: 'When', cell: (entry) => <RelativeTime at={entry.at} /> },
    { label: 'From', cell: (entry) => <span className="mono muted">{entry.actor.address ?? '–'}</span> },
  ]
  const change = (changes: AuditSearch) => navigate({ search: (before) => ({ ...before, ...changes }) })
  return (
    <>
      <PageHeader
        title="Audit log"
        description="Every change in the organization: who made it, with what, and from where."
      />
      <section className="card" aria-label="Audit log">
        <div className="card-header">
          <AuditFilters search={search} onChange={change} />
        </div>
        <DataTable
          {...entries}
          label="Audit log"
          columns={columns}
          rowKey={(entry) => entry.id}
          empty={
            isFiltered ? (
              <EmptyState
                icon={SearchX}
                title="No entry matches these filters"
                action={<Button onClick={() => navigate({ search: {} })}>Clear filters</Button>}
              />
            ) : (
              <EmptyState icon={ScrollText} title="Nothing has changed yet">
                Every creation, change and removal in this organization is recorded here.
              </EmptyState>
            )
          }
        />
      </section>
      {shown && (
        <Dialog
          title={actionText(shown.action)}
          description={exactText(shown.at)}
          onClose={() => setShown(null)}
          footer={<Button onClick={() => setShown(null)}>Close</Button>}
        >
          <Json text={JSON.stringify(shown)} label="Copy the entry" />
        </Dialog>
      )}
    </>
  )
}

function Actor({ entry: { actor } }: { entry: AuditEntry }) {
  if (actor.user_id === null) return <span>Operator</span>
  return (
    <div>
      <PersonName id={actor.user_id} />
      {actor.kind === 'key' && actor.credential && (
        <div className="small muted">
          with key <IdChip id={actor.credential} short />
        </div>
      )}
    </div>
  )
}
