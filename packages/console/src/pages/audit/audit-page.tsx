import type { AuditAction, AuditEntry } from '@keyhook/client'
import { getRouteApi } from '@tanstack/react-router'
import { ScrollText, SearchX } from 'lucide-react'
import { useMemo, useState } from 'react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { Button } from '../../components/button.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { type AuditSearch, rangeMs } from '../../search.ts'
import { AuditDetails } from './audit-details.tsx'
import { AuditFilters } from './audit-filters.tsx'
import { type AuditLine, AuditSentence } from './audit-row.tsx'
import { grouped } from './audit-sentences.ts'

const route = getRouteApi('/$orgId/audit')

export function AuditPage() {
  const { orgId } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [shown, setShown] = useState<AuditEntry | null>(null)
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
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
  const lines = entries.rows && linesOf(entries.rows, opened)
  const isOpen = (group: readonly AuditEntry[]) => group.some(({ id }) => opened.has(id))
  const toggle = (group: readonly AuditEntry[]) => {
    const ids = new Set(group.map(({ id }) => id))
    setOpened(isOpen(group) ? opened.difference(ids) : opened.union(ids))
  }
  const columns: Column<AuditLine>[] = [
    { label: 'What happened', cell: (line) => <AuditSentence line={line} /> },
    { label: 'When', className: 'cell-time', cell: ({ entries: [entry] }) => <RelativeTime at={entry.at} /> },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: ({ entries: group }) =>
        group.length > 1 ? (
          <Button small onClick={() => toggle(group)} aria-expanded={isOpen(group)}>
            {isOpen(group) ? 'Hide' : 'Show all'}
          </Button>
        ) : (
          <Button small onClick={() => setShown(group[0])}>
            Details
          </Button>
        ),
    },
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
          rows={lines}
          label="Audit log"
          columns={columns}
          rowKey={(line) => line.key}
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
      {shown && <AuditDetails entry={shown} onClose={() => setShown(null)} />}
    </>
  )
}

/** Each group is one line, followed by its entries while it is open. A group stays open when an entry is added to it. */
function linesOf(entries: readonly AuditEntry[], opened: ReadonlySet<string>): AuditLine[] {
  return grouped(entries).flatMap((group) => {
    const [newest] = group
    if (group.length === 1) return [{ key: newest.id, entries: group, isInner: false }]
    const line: AuditLine = { key: `group of ${newest.id}`, entries: group, isInner: false }
    if (!group.some(({ id }) => opened.has(id))) return [line]
    return [line, ...group.map((entry): AuditLine => ({ key: entry.id, entries: [entry], isInner: true }))]
  })
}
