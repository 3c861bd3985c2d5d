import type { AuditEntry } from '@keyhook/client'
import { getRouteApi } from '@tanstack/react-router'
import { ScrollText, SearchX } from 'lucide-react'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { Button } from '../../components/button.tsx'
import { Json } from '../../components/code.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { PageHeader } from '../../components/page.tsx'
import { PersonName } from '../../components/person.tsx'
import { Select } from '../../components/select.tsx'
import { EmptyState } from '../../components/states.tsx'
import { exactText, RelativeTime } from '../../components/time.tsx'
import { actionText, actionTexts } from './audit-words.ts'

const route = getRouteApi('/$orgId/audit')

const kinds = { any: 'Anyone', login: 'People', key: 'API keys', operator: 'The operator' }

export function AuditPage() {
  const { orgId } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [shown, setShown] = useState<AuditEntry | null>(null)
  const entries = useList([orgId, 'audit'], (options) => client.audit.list({ ...options, organization: orgId }), {
    limit: 100,
    refetchInterval: 10_000,
  })
  const rows = entries.rows?.filter(
    (entry) =>
      (search.action === undefined || entry.action === search.action) &&
      (search.actor === undefined || entry.actor.kind === search.actor),
  )
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
  const change = (changes: object) => navigate({ search: (before) => ({ ...before, ...changes }) })
  return (
    <>
      <PageHeader
        title="Audit log"
        description="Every change in the organization: who made it, with what, and from where."
      />
      <section className="card" aria-label="Audit log">
        <div className="card-header">
          <Select<string>
            small
            label="Action"
            options={{ any: 'Any action', ...actionTexts }}
            value={search.action ?? 'any'}
            onChange={(value) => change({ action: value === 'any' ? undefined : value })}
          />
          <Select<string>
            small
            label="Made by"
            options={kinds}
            value={search.actor ?? 'any'}
            onChange={(value) => change({ actor: value === 'any' ? undefined : value })}
          />
        </div>
        <DataTable
          {...entries}
          rows={rows}
          label="Audit log"
          columns={columns}
          rowKey={(entry) => entry.id}
          empty={
            entries.rows?.length === 0 ? (
              <EmptyState icon={ScrollText} title="Nothing has changed yet">
                As soon as somebody creates, changes or removes something here, it is recorded.
              </EmptyState>
            ) : (
              <EmptyState
                icon={SearchX}
                title="No entry fits these filters"
                action={
                  <>
                    <Button onClick={() => navigate({ search: {} })}>Clear filters</Button>
                    {entries.more && <Button onClick={() => entries.more?.load()}>Search older entries</Button>}
                  </>
                }
              />
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
