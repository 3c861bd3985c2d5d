import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import { operator } from '../access/audit.ts'
import { type Month, monthPeriod } from '../billing/invoice.ts'
import { issueInvoice, payInvoice } from '../billing/rules.ts'
import type { InvoiceRow } from '../billing/sql.ts'
import { type Prices, pricesInUse } from '../databases/node-sql.ts'
import { createTransact } from '../db/database.ts'
import { createHints } from '../delivery/hints.ts'
import { idOption } from './directory-commands.ts'
import { operatorCommand } from './installation.ts'

export function addCommands(program: KeyhookCommand): void {
  const invoice = program.command('invoice')
  operatorCommand(invoice, 'issue', 'Create the invoice of a past month, or show the invoice that exists already')
    .examples('npx keyhook invoice issue --org org_… --month 2026-10')
    .requiredOption('--org <org>', 'Issue the invoice of this organization (org_…)')
    .requiredOption('--month <month>', 'Issue the invoice of this month, such as 2026-10')
    .run(async ({ db, config }, output, options: { org: string; month: string }) => {
      const orgId = idOption('org', '--org', options.org)
      const month = monthOption(options.month)
      const prices = { currency: config.currency, hourPriceMinor: config.databaseHourPriceMinor }
      checkPrices(prices, await pricesInUse(db))
      const issued = await issueInvoice({ db, prices }, operator, { orgId, month })
      if (issued === null)
        return output.result(
          { invoice: null },
          `No invoice was created: the organization used no database in ${month}.`,
        )
      const start = issued.isNew ? 'Created' : 'There is already'
      output.result(facts(issued.invoice), `${start} the invoice ${issued.invoice.id}: ${sum(issued.invoice)}.`)
    })
  operatorCommand(invoice, 'pay', 'Mark an invoice as paid')
    .examples('npx keyhook invoice pay --invoice inv_…')
    .requiredOption('--invoice <inv>', 'Mark this invoice (inv_…) as paid')
    .run(async ({ db }, output, options: { invoice: string }) => {
      const transact = createTransact(db, createHints({ db, onError() {} }).give)
      const paid = await payInvoice(transact, operator, idOption('inv', '--invoice', options.invoice))
      output.result(facts(paid), `${paid.id} is paid (${paid.paid_at?.toISOString()}).`)
    })
}

/** The terminal often has other settings than the server, and an invoice cannot be changed. */
function checkPrices(here: Prices, there: Prices | null): void {
  if (there === null || (there.currency === here.currency && there.hourPriceMinor === here.hourPriceMinor)) return
  const price = ({ currency, hourPriceMinor }: Prices) => `${hourPriceMinor} minor units of ${currency}`
  throw new UsageError(
    `An hour of a database costs ${price(there)} where the server runs, and would cost ${price(here)} here. An invoice is ` +
      `final: set KEYHOOK_CURRENCY=${there.currency} and KEYHOOK_DATABASE_HOUR_PRICE_MINOR=${there.hourPriceMinor} here too.`,
  )
}

function monthOption(text: string): Month {
  if (monthPeriod(text) === null)
    throw new UsageError(`--month: ${JSON.stringify(text)} is not a month such as 2026-10`)
  return text
}

const sum = (row: InvoiceRow): string => `${row.total_minor} minor units of ${row.currency} for ${row.month}`

const facts = (row: InvoiceRow) => ({
  id: row.id,
  month: row.month,
  status: row.status,
  currency: row.currency,
  total_minor: row.total_minor,
  paid_at: row.paid_at?.toISOString() ?? null,
})
