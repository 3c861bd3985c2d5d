import type { Invoice, InvoiceSummary } from '@keyhook/client'
import type { KeyhookCommand } from '../program.ts'
import { customerCommand } from '../session.ts'
import { statusText } from '../style.ts'
import { type Column, recordLines, tableLines, timeText } from '../table.ts'

const columns: Column<InvoiceSummary>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'MONTH', of: ({ month }) => month },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'TOTAL', of: ({ total_minor, currency }) => money(total_minor, currency) },
]

export function addCommands(program: KeyhookCommand): void {
  const invoices = program.command('invoices')
  customerCommand(invoices, 'list', 'List invoices, newest first')
    .examples('npx keyhook invoices list')
    .list('invoices', columns, 'The organization has no invoices yet.', (client, limit) =>
      client.invoices.list({ limit }),
    )
  customerCommand(invoices, 'show <invoice>', 'Show an invoice and the amount of each database')
    .examples('npx keyhook invoices show inv_…')
    .run(async ({ client, output }, _options: object, id: string) => {
      const invoice = await client.invoices.get(id)
      output.result(invoice, details(invoice))
    })
}

function details(invoice: Invoice): string {
  const head = recordLines({
    Id: invoice.id,
    Month: invoice.month,
    Status: invoice.status,
    Issued: timeText(invoice.issued_at),
    Paid: timeText(invoice.paid_at),
    Total: money(invoice.total_minor, invoice.currency),
  })
  const lines = tableLines(
    [
      { title: 'DATABASE', of: ({ name }) => name, mayShrink: true },
      { title: 'HOURS', of: ({ seconds }) => (seconds / 3_600).toFixed(2) },
      { title: 'AMOUNT', of: ({ amount_minor }) => money(amount_minor, invoice.currency) },
      { title: 'ID', of: ({ database_id }) => database_id },
    ],
    invoice.lines,
  )
  return [...head, '', ...lines].join('\n')
}

/** Minor units of ISO 4217: most currencies have two digits, some have none or three. */
function money(minor: number, currency: string): string {
  const digits =
    new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits ?? 2
  return `${(minor / 10 ** digits).toFixed(digits)} ${currency}`
}
