import { expect, onTestFinished, test } from 'vitest'
import { composeHints } from '../../src/compose/dispatcher.ts'
import { createTransact } from '../../src/db/database.ts'
import { publish } from '../../src/delivery/publish.ts'
import { newId, type WebhookId } from '../../src/lib/ids.ts'
import { notifyOwners } from '../../src/mail/notices.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { passHours, runHealthWorkers, suspendWebhooks } from '../delivery/support/suspension.ts'
import { fileWith, githubKeyPair, report } from '../keys/support/leak-reports.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { dispatcherAlone } from '../kit/composed.ts'
import { freePort } from '../kit/free-port.ts'
import { startApiForTest } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { startMailServer } from './support/mail-server.ts'
import { mailingApi, mailSettings, startSender } from './support/mailing-api.ts'

const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d UTC`

test('a webhook that fails, is suspended and works again is told in words, with a link to it', async () => {
  const { api, server, sent } = await mailingApi({ ...deliveryEnvironment, KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,50h' })
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  let status = 503
  const receiver = await receiverFor(() => ({ status }))
  const { id } = (
    await call<{ id: string }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, {
      token,
      body: { url: `${receiver.url}?token=secret`, event_types: ['database.created'] },
    })
  ).body
  const hints = composeHints(api, captureLog().log)
  const transact = createTransact(api.db, hints.give)
  const engine = await dispatcherAlone(api, undefined, hints)
  onTestFinished(() => engine.stop())
  const publishOne = () =>
    transact((tx) => publish(tx, { orgId, type: 'database.created', data: { database_id: newId('db'), name: 'main' } }))
  const told = async () => {
    await runHealthWorkers(transact)
    await sent()
    const { text, headers } = server.mails.at(-1)!
    expect(text).toContain(`https://keyhook.example.com/db/console/${orgId}/webhooks/${id}`)
    return `${/^Subject: (.*)$/m.exec(headers)![1]}: ${text.split('\n')[0]}`
  }
  const attempts = (count: number) => until(async () => (await api.db`select from keyhook.attempts`).length === count)

  for (let i = 0; i < 3; i++) await publishOne()
  await attempts(3)
  const named = `The webhook “${receiver.url}”`
  expect(await told()).toMatch(
    new RegExp(
      `^A webhook fails \\(Acme\\): ${named} has failed since ${time}: HTTP 503\\. Its deliveries are retried\\.$`,
    ),
  )
  await suspendWebhooks(api.db, transact)
  await publishOne()
  expect(await told()).toMatch(
    new RegExp(
      `^A webhook was suspended \\(Acme\\): ${named} has failed since ${time}\\. Its deliveries wait, \\d so far, and one is tried every hour\\. The first success sends the others\\.$`,
    ),
  )
  status = 200
  await passHours(api.db, 1)
  await until(async () => (await api.db`select from keyhook.lanes where failing_since is not null`).length === 0)
  expect(await told()).toMatch(
    new RegExp(
      `^A webhook works again \\(Acme\\): ${named}, which had failed since ${time}, accepts deliveries again\\.$`,
    ),
  )
  expect(server.mails).toHaveLength(3)
})

test('a leaked key is told in words: where it was found, and what was revoked with it', async () => {
  const github = githubKeyPair()
  const { api, server, sent } = await mailingApi({ KEYHOOK_LEAK_REPORT_KEYS_FILE: fileWith(github.published) })
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  type Key = { key_prefix: string; api_key: string }
  const create = async (by: string, name: string) =>
    (await call<Key>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, { token: by, body: { name } })).body
  const { key_prefix: prefix, api_key: key } = await create(token, 'ci')
  await create(key, 'deploy')
  await create(key, 'report')
  await report(api.url, github, [{ token: key, type: 'keyhook_api_key', url: 'https://example.com/deploy.sh' }])
  await sent()
  const [mail] = server.mails
  expect(mail!.headers).toMatch(/^Subject: A leaked API key was revoked \(Acme\)$/m)
  expect(mail!.text.split('\n')[0]).toBe(
    `The API key “ci” (${prefix}…) was found in public at https://example.com/deploy.sh and was revoked. 2 more keys that it had created were revoked with it. Look in the audit log for what was done with it.`,
  )
  expect(mail!.text).toContain(`https://keyhook.example.com/db/console/${orgId}/audit`)
})

const recovered = (webhookId: WebhookId) =>
  ({ kind: 'webhook.recovered', webhookId, url: 'https://example.com', since: new Date() }) as const

test('many notices about webhooks do not keep those about keys', async () => {
  const { api, server, sent } = await mailingApi({ KEYHOOK_MAIL_PER_ADDRESS_MAX: '2' })
  const orgId = await api.organization()
  await api.person([{ orgId, role: 'owner' }])
  for (let i = 0; i < 4; i++) {
    await api.db.begin((tx) => notifyOwners(tx, orgId, [recovered(newId('wh'))]))
    await sent()
  }
  const leaked = { id: newId('key'), name: 'ci', keyPrefix: 'kh_12345678', foundAt: null, alsoRevoked: 0 }
  await api.db.begin((tx) => notifyOwners(tx, orgId, [{ kind: 'key.leaked', ...leaked }]))
  await sent()
  const subjects = server.mails.map(({ headers }) => /^Subject: (.*) \(/m.exec(headers)![1])
  expect(subjects).toEqual(['A webhook works again', 'A webhook works again', 'A leaked API key was revoked'])
})

test('a late notice that a webhook fails is left out once it works again', async () => {
  const { log, lines } = captureLog()
  const api = await startApiForTest(mailSettings(await freePort()))
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const body = { url: 'https://example.com', event_types: ['database.created'] }
  const { id } = (await call<{ id: WebhookId }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body }))
    .body
  await api.db`update keyhook.lanes set failures = 3, failing_since = now()`
  await startSender(api, log)
  const notice = { webhookId: id, url: 'https://example.com', since: new Date() }
  await api.db.begin((tx) => notifyOwners(tx, orgId, [{ kind: 'webhook.failing', error: 'timeout', ...notice }]))
  await api.db.begin((tx) => notifyOwners(tx, orgId, [{ kind: 'webhook.suspended', waiting: 1, ...notice }]))
  await until(async () => (await api.db`select from keyhook.mails where last_error is not null`).length === 2)
  await api.db`update keyhook.lanes set failures = 0, failing_since = null`
  await api.db.begin((tx) => notifyOwners(tx, orgId, [recovered(id)]))
  const server = await startMailServer({ port: api.config.smtpUrl!.port })
  onTestFinished(() => server.stop())
  await api.db`update keyhook.mails set due_at = now()`
  await until(async () => (await api.db`select from keyhook.mails`).length === 0)
  await until(() => lines().filter(({ msg }) => msg === 'mail.left_out').length === 2)
  expect(server.mails.map(({ headers }) => /^Subject: (.*) \(/m.exec(headers)![1])).toEqual(['A webhook works again'])
})
