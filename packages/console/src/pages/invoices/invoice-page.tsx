import '../../styles/invoice.css'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { Printer } from 'lucide-react'
import { client } from '../../api/client.ts'
import { useMember } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { PageHeader } from '../../components/page.tsx'
import { exactText } from '../../components/time.tsx'
import { PageFailure, PageLoading } from '../../layout/fallbacks.tsx'
import { countText } from '../../words/numbers.ts'
import { InvoiceStatus, moneyText, monthText } from './invoice-words.tsx'

const route = getRouteApi('/$orgId/invoices/$invoiceId')

export function InvoicePage() {
  const { orgId, invoiceId } = route.useParams()
  const organization = useMember()
  const query = useQuery({
    queryKey: [orgId, 'invoices', invoiceId],
    queryFn: ({ signal }) => client.invoices.get(invoiceId, { organization: orgId, signal }),
  })
  if (query.error !== null) return <PageFailure error={query.error} retry={query.refetch} what="The invoice" />
  if (query.data === undefined) return <PageLoading />
  const invoice = query.data
  const money = (minor: number) => moneyText(minor, invoice.currency)
  return (
    <>
      <PageHeader
        title={`Invoice ${monthText(invoice.month)}`}
        crumbs={
          <Link to="/$orgId/invoices" params={{ orgId }}>
            Invoices
          </Link>
        }
        actions={
          <Button onClick={() => window.print()}>
            <Printer size={15} aria-hidden="true" />
            Print
          </Button>
        }
      />
      <article className="card invoice">
        <dl className="facts card-body">
          <dt>Organization</dt>
          <dd>{organization.name}</dd>
          <dt>Invoice</dt>
          <dd>
            <IdChip id={invoice.id} />
          </dd>
          <dt>Issued</dt>
          <dd>{exactText(invoice.issued_at)}</dd>
          <dt>Status</dt>
          <dd className="row row-wrap">
            <InvoiceStatus invoice={invoice} />
            {invoice.paid_at && <span className="muted">{exactText(invoice.paid_at)}</span>}
          </dd>
        </dl>
        <div className="table-scroll">
          <table className="table table-cards" aria-label="Line items">
            <thead>
              <tr>
                <th scope="col">Database</th>
                <th scope="col" className="cell-end">
                  Hours
                </th>
                <th scope="col" className="cell-end">
                  Price per hour
                </th>
                <th scope="col" className="cell-end">
                  Amount
                </th>
              </tr>
            </thead>
            <tbody>
              {invoice.lines.map((line) => (
                <tr key={line.database_id}>
                  <td className="cell-title">{line.name}</td>
                  <td className="cell-end number" data-label="Hours">
                    {countText(Math.round(line.seconds / 36) / 100)}
                  </td>
                  <td className="cell-end number" data-label="Price per hour">
                    {money(line.hour_price_minor)}
                  </td>
                  <td className="cell-end number" data-label="Amount">
                    {money(line.amount_minor)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <div className="invoice-total">
          <span>Total</span>
          <span className="number">{money(invoice.total_minor)}</span>
        </div>
      </article>
    </>
  )
}
