import { useQuery } from '@tanstack/react-query'
import { client } from '../../api/client.ts'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { amountText, quotaNames, quotaWords } from '../../words/quotas.ts'

type Row = { name: (typeof quotaNames)[number]; used: number | null; limit: number | null }

const columns: Column<Row>[] = [
  { label: 'What', cell: ({ name }) => quotaWords[name] },
  { label: 'Used', cell: ({ name, used }) => (used === null ? '–' : amountText(name, used)) },
  {
    label: 'Limit',
    cell: ({ name, limit }) => (limit === null ? <span className="muted">No limit</span> : amountText(name, limit)),
  },
]

/** What the organization uses, and may use. */
export function Quotas({ organization }: { organization: { id: string } }) {
  const { data, error, refetch } = useQuery({
    queryKey: [organization.id, 'quotas'],
    queryFn: ({ signal }) => client.organizations.quotas({ organization: organization.id, signal }),
  })
  return (
    <section className="card" aria-label="Limits">
      <div className="card-header">
        <h2>Limits</h2>
      </div>
      <DataTable
        rows={data && quotaNames.map((name) => ({ name, ...data[name] }))}
        error={error}
        retry={refetch}
        label="Limits"
        columns={columns}
        rowKey={({ name }) => name}
        empty={null}
      />
    </section>
  )
}
