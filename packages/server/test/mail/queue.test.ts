import type { SMTPServerOptions } from 'smtp-server'
import { describe, expect, onTestFinished, test } from 'vitest'
import { failBackup } from '../../src/backups/rules.ts'
import { recordStorageStats, takeNearlyFull } from '../../src/databases/usage-sql.ts'
import { createTransact } from '../../src/db/database.ts'
import { createKeyExpiry } from '../../src/keys/expiry.ts'
import type { BackupId, DatabaseId, OrgId } from '../../src/lib/ids.ts'
import { notifyOwners } from '../../src/mail/notices.ts'
import { setMember } from '../../src/organizations/rules.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { startApiForTest, type TestApi, testOperator } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { startMailServer } from './support/mail-server.ts'
import { mailingApi, mailSettings, startSender } from './support/mailing-api.ts'

const refusal = () => Object.assign(new Error('Not allowed'), { responseCode: 550 })

const databaseId = 'db_01m7n2bk5vfamv24tpe8shekmc' as DatabaseId
const failed = (name: string, problem = 'The disk is full.') =>
  ({ kind: 'backup.failed', databaseId, name, problem }) as const

async function ownedBy(api: TestApi) {
  const orgId = await api.organization()
  const { userId, token } = await api.person([{ orgId, role: 'owner' }])
  const { email } = await api.db<{ email: string }[]>`select email from keyhook.users where id = ${userId}`.one()
  const notify = (...names: string[]) =>
    api.db.begin((tx) =>
      notifyOwners(
        tx,
        orgId,
        names.map((name) => failed(name)),
      ),
    )
  return { orgId, userId, token, email, notify }
}

describe('notices', () => {
  test('go to each owner with a confirmed address, once for all notices of a change', async () => {
    const { api, server, sent } = await mailingApi()
    const { orgId, email, notify } = await ownedBy(api)
    const second = await api.person([{ orgId, role: 'owner' }])
    await api.person([{ orgId, role: 'admin' }])
    await api.db`
      insert into keyhook.users (id, email, invited_to) values ('usr_unconfirmed', 'unconfirmed@example.com', ${orgId})`
    await setMember(api.db, testOperator, { orgId, userId: 'usr_unconfirmed', role: 'owner' })
    await notify(...Array.from({ length: 25 }, (_, i) => `orders-${i}`))
    await sent()
    expect(server.mails).toHaveLength(2)
    expect(new Set(server.mails.flatMap(({ to }) => to)).size).toBe(2)
    const [mail] = server.to(email)
    expect(mail!.text).toContain('“orders-19”')
    expect(mail!.text).toContain('There are 5 more.')
    expect(mail!.text).toContain(`https://keyhook.example.com/db/console/${orgId}/databases/${databaseId}`)
    expect(mail!.headers).toMatch(/^Auto-Submitted: auto-generated$/m)
    expect(second.userId).toBeDefined()
  })

  test('are not queued while no process sends mail', async () => {
    const api = await startApiForTest()
    const { notify } = await ownedBy(api)
    await notify('orders')
    await api.db`insert into keyhook.mail_senders (seen_at) values (now() - interval '11 minutes')`
    await notify('orders')
    expect(await api.db`select from keyhook.mails`).toHaveLength(0)
  })

  test('do not go to somebody who is no owner any more', async () => {
    const api = await startApiForTest(mailSettings(await freePort()))
    await startSender(api)
    const { orgId, email, notify } = await ownedBy(api)
    const other = await api.person([{ orgId, role: 'owner' }])
    await notify('orders')
    await until(async () => (await api.db`select from keyhook.mails where last_error is not null`).length === 2)
    await api.db`update keyhook.memberships set role = 'member' where user_id = ${other.userId}`
    const server = await startMailServer({ port: api.config.smtpUrl!.port })
    onTestFinished(() => server.stop())
    await api.db`update keyhook.mails set due_at = now()`
    await until(async () => (await api.db`select from keyhook.mails`).length === 0)
    expect(server.mails.map(({ to }) => to)).toEqual([[email]])
  })

  test('are left out beyond the number of an hour, which the last mail says', async () => {
    const { api, server, sent } = await mailingApi({ KEYHOOK_MAIL_PER_ADDRESS_MAX: '2' })
    const { notify } = await ownedBy(api)
    for (let i = 0; i < 5; i += 1) {
      await notify(`orders-${i}`)
      await sent()
    }
    expect(server.mails.map(({ text }) => text.includes('others in this hour are left out'))).toEqual([false, true])
  })

  test('of customers cannot add a header, a recipient or HTML', async () => {
    const { api, server, sent } = await mailingApi()
    const { orgId, email, notify } = await ownedBy(api)
    const hostile = 'x\r\nBcc: victim@example.com\r\n\r\n<script>alert(1)</script>\u202e"\'&'
    const name = hostile.replace(/[\r\n\u202e]/g, ' ')
    await api.db`update keyhook.organizations set name = ${name} where id = ${orgId}`
    await notify(hostile)
    await sent()
    const [mail] = server.mails
    expect(mail!.to).toEqual([email])
    expect(mail!.headers).not.toMatch(/^Bcc/im)
    expect(mail!.html).not.toContain('<script')
    expect(mail!.html).toContain('&lt;script&gt;')
    for (const part of [mail!.html, mail!.text]) expect(part).not.toContain('\u202e')
  })
})

describe('what owners are told', () => {
  test('a key that expires soon, once with two nodes', async () => {
    const { api, server, sent } = await mailingApi()
    const { orgId, token } = await ownedBy(api)
    const expires_at = new Date(Date.now() + 20 * 86_400_000).toISOString()
    await call(`${api.url}/platform/v1/organizations/${orgId}/api-keys`, { token, body: { name: 'ci', expires_at } })
    await api.db`update keyhook.api_keys set notice_at = now()`
    const nodes = [0, 1].map(() => createKeyExpiry({ transact: createTransact(api.db, () => {}), onError() {} }))
    await Promise.all(nodes.map((node) => node.run()))
    await Promise.all(nodes.map((node) => node.close()))
    await sent()
    expect(server.mails).toHaveLength(1)
    expect(server.mails[0]!.text).toMatch(/The API key “ci” \(kh_\w+…\) expires at /)
  })

  async function database(api: TestApi, orgId: OrgId, userId: string) {
    await api.db`
      insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
      values (${orgId}, ${databaseId}, 'orders', 'available', 'n1', '127.0.0.1', 5432, ${userId})`
  }

  test('a backup that failed, but not one that was cancelled', async () => {
    const { api, server, sent } = await mailingApi()
    const { orgId, userId } = await ownedBy(api)
    await database(api, orgId, userId)
    const fail = async (id: string, reason: string) => {
      await api.db`
        insert into keyhook.backups (org_id, id, database_id, node, origin, status, created_by)
        values (${orgId}, ${id}, ${databaseId}, 'n1', 'requested', 'running', ${userId})`
      await createTransact(api.db, () => {})((tx) => failBackup(tx, orgId, id as BackupId, reason))
      await sent()
    }
    await fail('bak_1', 'The backup was cancelled.')
    await fail('bak_2', 'The disk is full.')
    expect(server.mails.map(({ text }) => text.split('\n')[0])).toEqual([
      'A backup of the database “orders” failed: The disk is full.',
    ])
  })

  test('a database that becomes nearly full, once until it has room again', async () => {
    const { api } = await mailingApi()
    const { orgId, userId } = await ownedBy(api)
    await database(api, orgId, userId)
    const told: number[] = []
    for (const percent of [79, 80, 95, 75, 85, 69, 81]) {
      const measured = { id: databaseId, usedBytes: percent, limitBytes: 100, state: 'normal', message: null } as const
      await api.db.begin(async (tx) => {
        await recordStorageStats(tx, 'n1', [measured])
        for (const one of await takeNearlyFull(tx, [databaseId])) told.push(one.used_bytes)
      })
    }
    expect(told).toEqual([80, 81])
  })
})

describe('a queued mail', () => {
  test('waits while the mail server is away, and is sent once when it is back', async () => {
    const { log, lines } = captureLog()
    const api = await startApiForTest(mailSettings(await freePort()))
    const { notify } = await ownedBy(api)
    const sender = await startSender(api, log)
    await notify('orders')
    await until(
      async () => (await api.db`select from keyhook.mails where last_error like '%ECONNREFUSED%'`).length === 1,
    )
    const server = await startMailServer({ port: api.config.smtpUrl!.port })
    onTestFinished(() => server.stop())
    await api.db`update keyhook.mails set due_at = now()`
    await until(() => lines().some(({ msg }) => msg === 'mail.sent'))
    expect(server.mails).toHaveLength(1)
    expect(await api.db`select from keyhook.mails`).toHaveLength(0)
    expect(lines().map(({ msg }) => msg)).toEqual(['mail.failed', 'mail.sent'])
    expect(await sender.metrics.text()).toContain('keyhook_mails_total{outcome="sent"} 1')
  })

  test('is sent once by two nodes', async () => {
    const { api, server, sent } = await mailingApi()
    await startSender(api)
    const { notify } = await ownedBy(api)
    for (let i = 0; i < 8; i += 1) await notify(`orders-${i}`)
    await sent()
    expect(server.mails).toHaveLength(8)
  })

  test('of a process that was killed while it sent is sent by another one, with the same link', async () => {
    const api = await startApiForTest(mailSettings(await freePort()))
    const { email } = await ownedBy(api)
    await startSender(api)
    const ask = await fetch(`${api.url}/console/sign-in-mail`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: api.url },
      body: JSON.stringify({ email }),
    })
    expect(ask.status).toBe(202)
    await until(async () => (await api.db`select from keyhook.mails where attempts = 1`).length === 1)
    const links = await api.db`select secret_hash from keyhook.console_links`
    const server = await startMailServer({ port: api.config.smtpUrl!.port })
    onTestFinished(() => server.stop())
    // What a killed process leaves: a mail that was taken, and whose time comes after the claim.
    await api.db`update keyhook.mails set due_at = now(), last_error = null`
    await until(() => server.mails.length > 0)
    expect([...(await api.db`select secret_hash from keyhook.console_links`)]).toEqual([...links])
  })

  test.each<[what: string, options: SMTPServerOptions]>([
    ['sender', { onMailFrom: (_address, _session, done) => done(refusal()) }],
    [
      'content',
      {
        onData(stream, _session, done) {
          stream.resume().on('end', () => done(refusal()))
        },
      },
    ],
  ])('is kept when the mail server refuses the %s for good: the operator can correct that', async (_what, options) => {
    const { log, lines } = captureLog()
    const server = await startMailServer(options)
    onTestFinished(() => server.stop())
    const api = await startApiForTest(mailSettings(server.port))
    const { notify } = await ownedBy(api)
    await startSender(api, log)
    await notify('orders')
    await until(() => lines().length === 1)
    expect(lines()).toMatchObject([{ msg: 'mail.failed', error: expect.stringContaining('550 Not allowed') }])
    await until(async () => (await api.db`select from keyhook.mails where last_error like '550%'`).length === 1)
  })

  test('is given up when its time is over, or when the mail server refuses the address for good', async () => {
    const { log, lines } = captureLog()
    const server = await startMailServer({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error('No such user'), { responseCode: 550 })),
    })
    onTestFinished(() => server.stop())
    const api = await startApiForTest(mailSettings(server.port))
    const { orgId, userId, notify } = await ownedBy(api)
    await startSender(api, log)
    await api.db`
      insert into keyhook.mails (org_id, user_id, address, kind, send_by, last_error)
      values (${orgId}, ${userId}, 'a@example.com', 'notice', now() - interval '1 second', 'away')`
    await notify('orders')
    await until(() => lines().length === 2)
    expect(
      lines()
        .map(({ msg, error }) => `${msg} ${error}`)
        .sort(),
    ).toEqual(['mail.given_up 550 No such user (EENVELOPE)', 'mail.given_up away'])
  })
})
