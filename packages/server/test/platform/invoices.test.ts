import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DatabaseId, newId, type OrgId } from '../../src/kernel/ids.ts'
import { issueInvoice, issueInvoicesDue, payInvoice } from '../../src/platform/invoices.ts'
import { call } from '../support/client.ts'
import { type Person, startApi, type TestApi, testOperator } from '../support/installation.ts'
import { eventsOf } from './support/platform.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())

const prices = { currency: 'EUR', hourPriceMinor: 5 }
const now = () => new Date('2026-11-03T08:00:00Z')
const issue = (month: string) => issueInvoice({ db: api.db, prices, now }, testOperator, { orgId, month })

async function used(name: string, from: string, to: string | null): Promise<DatabaseId> {
  const id = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${id}, ${name}, 'available', 'n', 'h', 1, ${owner.userId})`
  await api.db`
    insert into keyhook.database_usage (org_id, database_id, started_at, ended_at) values (${orgId}, ${id}, ${from}, ${to})`
  return id
}

async function newOrganization(): Promise<void> {
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
}

type Invoice = { id: string; status: string; total_minor: number; lines: object[]; paid_at: string | null }

test('an invoice has a line per database, and asking for it again makes no second one', async () => {
  await newOrganization()
  const id = await used('shop', '2026-10-31T22:00:00Z', null)
  const invoices = await Promise.all(Array.from({ length: 5 }, () => issue('2026-10')))
  expect(new Set(invoices.map((one) => one!.invoice.id)).size).toBe(1)
  expect(invoices.filter((one) => one!.isNew)).toHaveLength(1)
  const base = `${api.url}/platform/v1/organizations/${orgId}/invoices`
  const listed = await call<Invoice[]>(base, { token: owner.token })
  expect(listed.body).toHaveLength(1)
  const { body } = await call<Invoice>(`${base}/${listed.body[0]!.id}`, { token: owner.token })
  expect(body).toMatchObject({ month: '2026-10', status: 'issued', currency: 'EUR', total_minor: 10, paid_at: null })
  expect(body.lines).toEqual([{ database_id: id, name: 'shop', seconds: 7_200, hour_price_minor: 5, amount_minor: 10 }])
  const member = await api.person([{ orgId, role: 'member' }])
  expect((await call(base, { token: member.token })).status).toBe(403)
})

test('a month that is not over, and one in which nothing was used, get no invoice', async () => {
  await newOrganization()
  await used('shop', '2026-10-31T22:00:00Z', '2026-10-31T23:00:00Z')
  await expect(issue('2026-11')).rejects.toMatchObject({ code: 'conflict' })
  await expect(issue('2026-1')).rejects.toMatchObject({ code: 'request.invalid' })
  expect(await issue('2026-09')).toBeNull()
})

test('the scheduled job bills last month for everybody who used something, once', async () => {
  await newOrganization()
  await used('shop', '2026-10-01T00:00:00Z', '2026-10-01T01:00:00Z')
  await issueInvoicesDue({ db: api.db, prices, now })
  expect(await issueInvoicesDue({ db: api.db, prices, now })).toEqual([])
  const rows = await api.db`select month, total_minor::int from keyhook.invoices where org_id = ${orgId}`
  expect(rows.map((row) => ({ ...row }))).toEqual([{ month: '2026-10', total_minor: 5 }])
})

test('an invoice that many pay at the same moment, over HTTP and from the command line, is paid once and told once', async () => {
  await newOrganization()
  await used('shop', '2026-10-31T22:00:00Z', null)
  const { invoice } = (await issue('2026-10'))!
  const token = await api.issuer.issue({ subject: 'operator', ttlSeconds: 60, operator: true })
  const pay = `${api.url}/operator/v1/invoices/${invoice.id}/pay`
  const [answers, rows] = await Promise.all([
    Promise.all(Array.from({ length: 12 }, () => call<Invoice>(pay, { token, method: 'POST' }))),
    Promise.all(Array.from({ length: 12 }, () => payInvoice(api.db, testOperator, invoice.id))),
  ])
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]))
  const moments = [...answers.map((a) => a.body.paid_at), ...rows.map((row) => row.paid_at!.toISOString())]
  expect(new Set(moments).size).toBe(1)
  const events = (await eventsOf(api.db, orgId)).filter((event) => event.type === 'invoice.paid')
  expect(events).toEqual([
    {
      type: 'invoice.paid',
      data: { invoice_id: invoice.id, month: '2026-10', currency: 'EUR', total_minor: 10, paid_at: moments[0] },
    },
  ])
  const audit = await api.db`select 1 from keyhook.audit_entries where org_id = ${orgId} and action = 'invoice.paid'`
  expect(audit).toHaveLength(1)
  expect((await call(pay, { token: owner.token, method: 'POST' })).status).toBe(403)
  expect((await call(pay.replace(invoice.id, newId('inv')), { token, method: 'POST' })).status).toBe(404)
})
