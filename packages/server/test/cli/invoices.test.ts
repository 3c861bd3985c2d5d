import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { announceNode } from '../../src/databases/node-sql.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { eventsOf } from '../databases/support/customer.ts'
import { call } from '../kit/client.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { bridgeTo, type Ended, keyhook, keyhookHere } from '../kit/processes.ts'
import { countRows } from '../kit/rows.ts'
import { until } from '../kit/until.ts'
import { recordUsage } from '../kit/usage.ts'

let api: TestApi
let environment: Record<string, string>
let cut: () => Promise<void>
beforeAll(async () => {
  const masterKey = randomBytes(32).toString('base64')
  api = await startApi({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(api.target, { keep: true })
  cut = bridge.cut
  const prices = { KEYHOOK_CURRENCY: 'EUR', KEYHOOK_DATABASE_HOUR_PRICE_MINOR: '5' }
  environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey, ...prices }
})
afterAll(async () => {
  await cut()
  await api.close()
})

const run = (...args: string[]): Promise<Ended> => keyhookHere(['invoice', ...args], environment)
const outputOf = async (...args: string[]): Promise<string> => {
  const ended = await run(...args)
  expect(ended, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
  return ended.stdout
}

/** An organization that used a database for two hours at the end of January 2020. */
async function customer(): Promise<OrgId> {
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  await recordUsage(api.db, { orgId, userId, from: '2020-01-31T22:00:00Z', to: '2020-02-01T00:00:00Z' })
  return orgId
}

const invoicesOf = (orgId: OrgId) => api.db`select id, status from keyhook.invoices where org_id = ${orgId}`
const paidEventsOf = async (orgId: OrgId) =>
  (await eventsOf(api.db, orgId)).filter((event) => event.type === 'invoice.paid')

test('issuing twice creates one invoice; a month without usage has none', async () => {
  const orgId = await customer()
  const january = ['issue', '--org', orgId, '--month', '2020-01']
  const first = await outputOf(...january)
  const line = /^(Created|There is already) the invoice (inv_\w+): 10 minor units of EUR for 2020-01\.\n$/
  expect(line.exec(first)?.[1]).toBe('Created')
  const second = await outputOf(...january)
  expect(line.exec(second)?.slice(1)).toEqual(['There is already', line.exec(first)![2]])
  const shown = await outputOf(...january, '--json')
  expect(shown.split('\n')).toHaveLength(2)
  expect(JSON.parse(shown)).toEqual({
    id: line.exec(first)![2],
    month: '2020-01',
    status: 'issued',
    currency: 'EUR',
    total_minor: 10,
    paid_at: null,
  })
  const february = ['issue', '--org', orgId, '--month', '2020-02']
  expect(await outputOf(...february)).toBe('No invoice was created: the organization used no database in 2020-02.\n')
  expect(await outputOf(...february, '--json')).toBe('{"invoice":null}\n')
  expect(await invoicesOf(orgId)).toHaveLength(1)
})

test('an invoice is issued only with the prices of the server', async () => {
  const orgId = await customer()
  const announce = (currency: string, hourPriceMinor: number) =>
    announceNode(api.db, 'node', {
      databasesMax: 1,
      prices: { currency, hourPriceMinor },
      host: 'localhost',
      store: null,
      up: null,
    })
  onTestFinished(async () => void (await api.db`delete from keyhook.nodes`))
  for (const [currency, hourPriceMinor] of [['CHF', 5] as const, ['EUR', 7] as const]) {
    await announce(currency, hourPriceMinor)
    const refused = await run('issue', '--org', orgId, '--month', '2020-01')
    expect(refused).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toMatch(
      /^An hour of a database costs [^\n]+ would cost 5 minor units of EUR here\. [^\n]+\n$/,
    )
    const { currency: set, price } = /=(?<currency>\w+) and \w+=(?<price>\d+) here too/.exec(refused.stderr)!.groups!
    expect([set, price]).toEqual([currency, String(hourPriceMinor)])
  }
  expect(await invoicesOf(orgId)).toEqual([])
  await announce('EUR', 5)
  expect(await outputOf('issue', '--org', orgId, '--month', '2020-01')).toMatch(/^Created [^\n]+ 10 minor units of EUR/)
})

test('of many concurrent payments, by command and over HTTP, one marks the invoice paid; the others get the time of payment', async () => {
  const orgId = await customer()
  const { id } = JSON.parse(await outputOf('issue', '--org', orgId, '--month', '2020-01', '--json'))
  const token = await api.operatorToken()
  // Held back until all of them wait for the invoice, so that the first one is random.
  const held = Promise.withResolvers<void>()
  const holding = api.db.begin(async (tx) => {
    await tx`select 1 from keyhook.invoices where id = ${id} for update`
    await held.promise
  })
  const pay = ['invoice', 'pay', '--invoice', id, '--json']
  const commands = Promise.all(Array.from({ length: 3 }, () => keyhook(pay, environment)))
  const url = `${api.url}/operator/v1/invoices/${id}/pay`
  const requests = Promise.all(
    Array.from({ length: 5 }, () => call<{ paid_at: string }>(url, { token, method: 'POST' })),
  )
  const waiting = () => api.db`
    select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await until(waiting, (rows) => rows.length === 8)
  held.resolve()
  await holding
  const answers: string[] = []
  for (const { status, body } of await requests) {
    expect(status).toBe(200)
    answers.push(body.paid_at)
  }
  for (const command of await commands) {
    expect(command).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(command.stdout)).toMatchObject({ id, status: 'paid', total_minor: 10 })
    answers.push(JSON.parse(command.stdout).paid_at)
  }
  const [paidAt, ...others] = new Set(answers)
  expect(others).toEqual([])
  expect(await outputOf('pay', '--invoice', id)).toBe(`${id} is paid (${paidAt}).\n`)
  const data = { invoice_id: id, month: '2020-01', currency: 'EUR', total_minor: 10, paid_at: paidAt }
  expect(await paidEventsOf(orgId)).toEqual([{ type: 'invoice.paid', data }])
})

test('an unpaid invoice is marked paid from the command line', async () => {
  const orgId = await customer()
  const { id } = JSON.parse(await outputOf('issue', '--org', orgId, '--month', '2020-01', '--json'))
  expect(await outputOf('pay', '--invoice', id)).toMatch(
    new RegExp(`^${id} is paid \\(\\d{4}-\\d\\d-\\d\\dT.*Z\\)\\.\\n$`),
  )
  expect(await invoicesOf(orgId)).toEqual([{ id, status: 'paid' }])
  expect(await paidEventsOf(orgId)).toHaveLength(1)
})

describe('a mistake prints one line, exits 2 and changes nothing', () => {
  const nowhere = newId('org')
  const none = newId('inv')
  const month = new Date().toISOString().slice(0, 7)
  test.each<[what: string, args: string[], line: RegExp]>([
    ['no month', ['issue', '--org', nowhere], /--month/],
    ['no organization', ['issue', '--month', '2020-01'], /--org/],
    ['an id of something else', ['issue', '--org', none, '--month', '2020-01'], /--org: .* is not an id such as org_/],
    ['an organization that does not exist', ['issue', '--org', nowhere, '--month', '2020-01'], /no organization org_/],
    ['a thirteenth month', ['issue', '--org', nowhere, '--month', '2026-13'], /--month: "2026-13" is not a month/],
    ['the year 0', ['issue', '--org', nowhere, '--month', '0000-01'], /--month: "0000-01" is not a month/],
    ['a day', ['issue', '--org', nowhere, '--month', '2020-01-01'], /is not a month such as 2026-10/],
    ['a month that is not over', ['issue', '--org', nowhere, '--month', month], /is not over yet/],
    ['no invoice', ['pay'], /--invoice/],
    ['an id of two lines', ['pay', '--invoice', 'a\nb'], /--invoice: "a\\nb" is not an id such as inv_/],
    ['an invoice that does not exist', ['pay', '--invoice', none], new RegExp(`There is no invoice ${none}`)],
  ])('%s', async (_, args, line) => {
    const before = await countRows(api.db)
    const ended = await run(...args)
    expect(ended.stderr).toMatch(line)
    expect(ended.stderr.match(/\n/g), ended.stderr).toHaveLength(1)
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(await countRows(api.db)).toEqual(before)
  })
})
