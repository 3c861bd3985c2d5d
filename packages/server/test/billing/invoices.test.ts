import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { monthOf } from '../../src/billing/invoice.ts'
import { issueInvoice, issueInvoicesDue, payInvoice } from '../../src/billing/rules.ts'
import { createTransact, databaseNowMs } from '../../src/db/database.ts'
import { invoicing } from '../../src/jobs/queue.ts'
import { type DatabaseId, newId, type OrgId } from '../../src/lib/ids.ts'
import { eventsOf } from '../databases/support/customer.ts'
import { startNode } from '../databases/support/platform.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, type TestApi, testOperator } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { recordUsage } from '../kit/usage.ts'
import '../kit/server-limits.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())

const prices = { currency: 'EUR', hourPriceMinor: 5 }
const issue = (month: string) => issueInvoice({ db: api.db, prices }, testOperator, { orgId, month })
const thisMonth = async () => monthOf(new Date(await databaseNowMs(api.db)))

const used = (name: string, from: string, to: string | null): Promise<DatabaseId> =>
  recordUsage(api.db, { orgId, userId: owner.userId, name, from, to })

async function newOrganization(): Promise<void> {
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
}

type Invoice = { id: string; status: string; total_minor: number; lines: object[]; paid_at: string | null }

test('an invoice has a line per database, and issuing it again creates no second one', async () => {
  await newOrganization()
  const id = await used('shop', '2020-10-31T22:00:00Z', null)
  const invoices = await Promise.all(Array.from({ length: 5 }, () => issue('2020-10')))
  expect(new Set(invoices.map((one) => one!.invoice.id)).size).toBe(1)
  expect(invoices.filter((one) => one!.isNew)).toHaveLength(1)
  const base = `${api.url}/platform/v1/organizations/${orgId}/invoices`
  const listed = await call<Invoice[]>(base, { token: owner.token })
  expect(listed.body).toHaveLength(1)
  const { body } = await call<Invoice>(`${base}/${listed.body[0]!.id}`, { token: owner.token })
  expect(body).toMatchObject({ month: '2020-10', status: 'issued', currency: 'EUR', total_minor: 10, paid_at: null })
  expect(body.lines).toEqual([{ database_id: id, name: 'shop', seconds: 7_200, hour_price_minor: 5, amount_minor: 10 }])
  const member = await api.person([{ orgId, role: 'member' }])
  expect((await call(base, { token: member.token })).status).toBe(403)
})

test('a month that is not over, and a month without usage, get no invoice', async () => {
  await newOrganization()
  await used('shop', '2020-10-31T22:00:00Z', '2020-10-31T23:00:00Z')
  await expect(issue(await thisMonth())).rejects.toMatchObject({ code: 'invoice.month_not_over' })
  for (const month of ['2020-1', '0000-01']) {
    await expect(issue(month)).rejects.toMatchObject({ code: 'request.invalid' })
  }
  expect(await issue('2020-09')).toBeNull()
})

const billed = async () => {
  const rows = await api.db`select month, total_minor::int from keyhook.invoices where org_id = ${orgId} order by month`
  return rows.map((row) => ({ ...row }))
}

test('an invoice is issued for every past month that has none, however long no node was running', async () => {
  await newOrganization()
  await used('shop', '2020-07-31T23:00:00Z', '2020-09-01T00:00:00Z')
  await used('late', '2020-10-01T00:00:00Z', '2020-10-01T01:00:00Z')
  await used('goes on', `${await thisMonth()}-01T00:00:00Z`, null)
  const { invoice } = (await issue('2020-08'))!
  await payInvoice(
    createTransact(api.db, () => {}),
    testOperator,
    invoice.id,
  )
  await issueInvoicesDue({ db: api.db, prices })
  // September, in which nothing was used, has none; nor has this month, which is not over.
  expect(await billed()).toEqual([
    { month: '2020-07', total_minor: 5 },
    { month: '2020-08', total_minor: 31 * 24 * 5 },
    { month: '2020-10', total_minor: 5 },
  ])
  expect(await issueInvoicesDue({ db: api.db, prices })).toEqual([])
})

test('the clock of PostgreSQL decides whether a month is over, and not the clock of the node', async () => {
  await newOrganization()
  const month = await thisMonth()
  await used('goes on', `${month}-01T00:00:00Z`, null)
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 70 * 86_400_000 })
  await expect(issue(month)).rejects.toMatchObject({ code: 'invoice.month_not_over' })
  await issueInvoicesDue({ db: api.db, prices })
  expect(await billed()).toEqual([])
})

test('an invoice that cannot be issued does not keep others from being issued', async () => {
  await newOrganization()
  const unlucky = orgId
  await used('shop', '2020-10-01T00:00:00Z', '2020-10-01T01:00:00Z')
  await newOrganization()
  await used('shop', '2020-10-01T00:00:00Z', '2020-10-01T01:00:00Z')
  // The first one fails, so that there is one after it.
  const both = [unlucky, orgId].sort()
  await api.db.unsafe(`alter table keyhook.invoices add constraint unlucky check (org_id <> '${both[0]}') not valid`)
  await expect(issueInvoicesDue({ db: api.db, prices })).rejects.toThrow('1 invoices could not be issued')
  await api.db`alter table keyhook.invoices drop constraint unlucky`
  const billedOrgs = await api.db`select org_id from keyhook.invoices where org_id = any(${both})`
  expect(billedOrgs.map((row) => row.org_id)).toEqual([both[1]])
})

test('the invoicing job is scheduled for every night, and issues what is due', async () => {
  const node = await startNode(api, { environment: { KEYHOOK_DATABASE_HOUR_PRICE_MINOR: '7' } })
  await node.ready
  const boss = await node.queue.boss()
  expect(await boss.getSchedules(invoicing)).toMatchObject([{ cron: '20 0 * * *', timezone: 'UTC' }])
  await newOrganization()
  await used('shop', '2020-01-01T00:00:00Z', '2020-01-01T01:00:00Z')
  // As the schedule does.
  await boss.send(invoicing)
  expect(await until(billed, (bills) => bills.length > 0)).toEqual([{ month: '2020-01', total_minor: 7 }])
})

test('an invoice that many requests pay at the same time is paid once, with one event and one audit entry', async () => {
  await newOrganization()
  await used('shop', '2020-10-31T22:00:00Z', null)
  const { invoice } = (await issue('2020-10'))!
  const token = await api.operatorToken()
  const pay = `${api.url}/operator/v1/invoices/${invoice.id}/pay`
  const [answers, rows] = await Promise.all([
    Promise.all(Array.from({ length: 12 }, () => call<Invoice>(pay, { token, method: 'POST' }))),
    Promise.all(
      Array.from({ length: 12 }, () =>
        payInvoice(
          createTransact(api.db, () => {}),
          testOperator,
          invoice.id,
        ),
      ),
    ),
  ])
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]))
  const times = [...answers.map((a) => a.body.paid_at), ...rows.map((row) => row.paid_at!.toISOString())]
  expect(new Set(times).size).toBe(1)
  const events = (await eventsOf(api.db, orgId)).filter((event) => event.type === 'invoice.paid')
  expect(events).toEqual([
    {
      type: 'invoice.paid',
      data: { invoice_id: invoice.id, month: '2020-10', currency: 'EUR', total_minor: 10, paid_at: times[0] },
    },
  ])
  const audit = await api.db`select 1 from keyhook.audit_entries where org_id = ${orgId} and action = 'invoice.paid'`
  expect(audit).toHaveLength(1)
  expect((await call(pay, { token: owner.token, method: 'POST' })).status).toBe(403)
  expect((await call(pay.replace(invoice.id, newId('inv')), { token, method: 'POST' })).status).toBe(404)
})
