import { createHmac, randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { connect } from '../../../src/db/database.ts'
import type { OrgId } from '../../../src/lib/ids.ts'
import { createMasterKeys } from '../../../src/lib/master-keys.ts'
import { portRange } from '../../databases/support/platform.ts'
import { deliveryEnvironment } from '../../delivery/support/delivery-test.ts'
import { eventIdOf, type Received, receiverFor } from '../../delivery/support/receiver.ts'
import { call } from '../../kit/client.ts'
import { people } from '../../kit/installation.ts'
import { serve } from '../../kit/processes.ts'
import { until } from '../../kit/until.ts'
import { deliveryOf, emptyHistory } from './history.ts'
import { whenAvailable } from './stored.ts'

const webhooksPerOrganization = 2

export type Organization = { orgId: OrgId; owner: string }
export type Fleet = Awaited<ReturnType<typeof startFleet>>

/**
 * Four processes of the real program on one DATABASE_URL, with two APIs and three dispatchers among them, two organizations, and
 * a receiver that checks signatures.
 */
export async function startFleet(databaseUrl: string) {
  const masterKey = randomBytes(32)
  const environment = {
    ...deliveryEnvironment,
    DATABASE_URL: databaseUrl,
    KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
    KEYHOOK_LOG_LEVEL: process.env.TEST_LOG ?? 'silent',
    KEYHOOK_DATABASES_PORTS: portRange(),
  }
  const first = await serve(environment)
  const others = await Promise.all(
    ['api', 'dispatcher', 'dispatcher'].map((role) => serve(environment, ['--role', role, '--json'])),
  )
  const processes = [first, ...others]

  const history = emptyHistory()
  const secrets = new Map<string, string>()
  const receiver = await receiverFor((request) => {
    const webhook = request.path.split('webhook=')[1]!
    const secret = secrets.get(webhook)
    if (secret !== undefined) history.received.push(receivedRequest(request, webhook, secret))
    // Slow enough that requests are always in flight.
    return { delayMs: 60 }
  })

  const url = new URL(databaseUrl)
  const target = {
    host: url.hostname,
    port: Number(url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: url.pathname.slice(1),
  }
  const db = connect(target, { name: 'test', connectionsMax: 2 })
  onTestFinished(() => db.end({ timeout: 5 }))
  const { organization, person, operatorToken } = people({ db, masterKeys: createMasterKeys([masterKey]) })
  const operator = await whenAvailable(() => operatorToken(3_600))
  let names = 0
  /** Each try has a name of its own: one whose answer was lost may exist, and nobody knows its secret. */
  const addWebhook = (orgId: OrgId, token: string): Promise<string> =>
    until(async () => {
      const name = `w${names++}`
      const body = { url: `${receiver.url}?webhook=${name}`, event_types: ['database.created'] }
      const made = await call<{ secret: string }>(`${first.url}/api/v1/organizations/${orgId}/webhooks`, {
        token,
        body,
      })
      if (made.status !== 201) return null
      secrets.set(name, made.body.secret)
      return name
    })
  const organizations: Organization[] = []
  const webhooks: { orgId: string; name: string }[] = []
  for (const place of ['a', 'b']) {
    const orgId = await whenAvailable(() => organization(place))
    const { token } = await whenAvailable(() => person([{ orgId, role: 'owner' }]))
    organizations.push({ orgId, owner: token })
    for (let i = 0; i < webhooksPerOrganization; i++) webhooks.push({ orgId, name: await addWebhook(orgId, token) })
  }
  return { apis: [first.url, others[0]!.url], processes, operator, organizations, webhooks, history, target }
}

function receivedRequest(request: Received, webhook: string, secret: string) {
  const expected = createHmac('sha256', secret).update(request.body).digest('hex')
  return {
    delivery: deliveryOf(webhook, eventIdOf(request)),
    signature: request.headers['webhook-signature']!,
    timestamp: request.headers['webhook-timestamp']!,
    isSigned: request.headers['x-service-signature'] === `sha256=${expected}`,
    sequence: Number(request.headers['x-service-sequence']),
    atMs: performance.now(),
  }
}
