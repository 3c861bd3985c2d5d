import type { InvoiceSummary } from '@keyhook/client'
import { getRouteApi, Link } from '@tanstack/react-router'
import { Receipt } from 'lucide-react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { InvoiceStatus, moneyText, monthText } from './invoice-words.tsx'

const route = getRouteApi('/$orgId/invoices')

export function InvoicesPage() {
  const { orgId } = route.useParams()
  const invoices = useList([orgId, 'invoices'], (options) => client.invoices.list({ ...options, organization: orgId }))
  const columns: Column<InvoiceSummary>[] = [
    {
      label: 'Month',
      cell: (invoice) => (
        <Link to="/$orgId/invoices/$invoiceId" params={{ orgId, invoiceId: invoice.id }} className="cell-title">
          {monthText(invoice.month)}
        </Link>
      ),
    },
    { label: 'Status', cell: (invoice) => <InvoiceStatus invoice={invoice} /> },
    { label: 'Issued', cell: (invoice) => <RelativeTime at={invoice.issued_at} /> },
    {
      label: 'Total',
      className: 'cell-end number',
      cell: (invoice) => moneyText(invoice.total_minor, invoice.currency),
    },
  ]
  return (
    <>
      <PageHeader title="Invoices" description="One invoice per month, for the hours in which databases existed." />
      <section className="card" aria-label="Invoices">
        <DataTable
          {...invoices}
          label="Invoices"
          columns={columns}
          rowKey={(invoice) => invoice.id}
          empty={
            <EmptyState
              icon={Receipt}
              title="No invoices yet"
              action={
                <Link to="/$orgId/databases" params={{ orgId }} className="button">
                  Go to databases
                </Link>
              }
            >
              The first invoice is issued after the first month in which the organization had a database.
            </EmptyState>
          }
        />
      </section>
    </>
  )
}
