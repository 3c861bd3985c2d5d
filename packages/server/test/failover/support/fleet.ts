import { createHmac, randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { connect } from '../../../src/db/database.ts'
import type { OrgId } from '../../../src/kernel/ids.ts'
import { createMasterKeys } from '../../../src/kernel/master-keys.ts'
import { portRange } from '../../platform/support/platform.ts'
import { call } from '../../support/client.ts'
import { people } from '../../support/installation.ts'
import { serve } from '../../support/processes.ts'
import { deliveryEnvironment } from '../../webhooks/support/delivery-test.ts'
import { eventIdOf, type Received, receiverFor } from '../../webhooks/support/receiver.ts'
import { deliveryOf, emptyHistory } from './history.ts'

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
    history.received.push(receivedRequest(request, secrets))
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
  const operator = await operatorToken(3_600)
  const organizations: Organization[] = []
  const webhooks: { orgId: string; name: string }[] = []
  for (const place of ['a', 'b']) {
    const orgId = await organization(place)
    const { token } = await person([{ orgId, role: 'owner' }])
    organizations.push({ orgId, owner: token })
    for (let i = 0; i < webhooksPerOrganization; i++) {
      const name = `${place}${i}`
      const body = { url: `${receiver.url}?webhook=${name}`, event_types: ['database.created'] }
      const path = `${first.url}/api/v1/organizations/${orgId}/webhooks`
      const made = await call<{ secret: string }>(path, { token, body })
      secrets.set(name, made.body.secret)
      webhooks.push({ orgId, name })
    }
  }
  return { apis: [first.url, others[0]!.url], processes, operator, organizations, webhooks, history, target }
}

function receivedRequest(request: Received, secrets: Map<string, string>) {
  const webhook = request.path.split('webhook=')[1]!
  const expected = createHmac('sha256', secrets.get(webhook)!).update(request.body).digest('hex')
  return {
    delivery: deliveryOf(webhook, eventIdOf(request)),
    signature: request.headers['webhook-signature']!,
    timestamp: request.headers['webhook-timestamp']!,
    isSigned: request.headers['x-service-signature'] === `sha256=${expected}`,
    sequence: Number(request.headers['x-service-sequence']),
    atMs: performance.now(),
  }
}
