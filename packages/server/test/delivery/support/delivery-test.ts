import { randomBytes } from 'node:crypto'
import { type Logger, pino } from 'pino'
import { onTestFinished } from 'vitest'
import { composeHints } from '../../../src/compose/dispatcher.ts'
import { createTransact } from '../../../src/db/database.ts'
import type { HistoryRow } from '../../../src/delivery/history-sql.ts'
import { publish } from '../../../src/delivery/publish.ts'
import type { AttemptOutcome } from '../../../src/delivery/statements/settle.ts'
import { newId, type OrgId, type UserId, type WebhookId } from '../../../src/lib/ids.ts'
import type { Installation } from '../../../src/startup/open.ts'
import { insertWebhook } from '../../../src/webhooks/sql.ts'
import { dispatcherAlone } from '../../kit/composed.ts'
import { createInstallation, people } from '../../kit/installation.ts'
import { caFile } from './receiver.ts'

export const deliveryEnvironment = {
  KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8,::1/128',
  KEYHOOK_DELIVERY_CA_FILE: caFile,
  KEYHOOK_DELIVERY_LEASE_MS: '2000',
  KEYHOOK_DELIVERY_TIMEOUT_MS: '3000',
  KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1s,1s',
  KEYHOOK_DELIVERY_DRAIN_MS: '1000',
}

type AttemptRow = Omit<HistoryRow, 'event_id' | 'event_type' | 'request_headers'> & {
  webhook_id: WebhookId
  event_seq: number
  request_headers: string
}

/** The outcome of an attempt that failed without any response. */
export const failedOutcome: AttemptOutcome = {
  status: 'failed',
  requestHeaders: '',
  durationUs: null,
  dnsUs: null,
  connectUs: null,
  tlsUs: null,
  firstByteUs: null,
  address: null,
  response: null,
  error: null,
}

/** A database of its own with an organization in it, and dispatchers that the test starts and stops. */
export async function deliveryTest(environment: Record<string, string> = {}) {
  const installation = await createInstallation({ ...deliveryEnvironment, ...environment })
  onTestFinished(() => installation.close())
  return deliveryWorld(installation)
}

async function deliveryWorld(installation: Installation) {
  const { db, masterKeys } = installation
  const world = people(installation)
  const orgId = await world.organization()
  const owner = await world.person([{ orgId, role: 'owner' }])
  const log: Logger = pino({ level: process.env.TEST_LOG ?? 'silent' })
  const hints = composeHints(installation, log)
  const transact = createTransact(db, hints.give)

  const addWebhook = async (
    url: string,
    { types = ['database.created'] as readonly string[], org = orgId, user = owner.userId as UserId } = {},
  ) => {
    const id = newId('wh')
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    const webhook = { id, url, eventTypes: types, secret: masterKeys.seal(secret, id), createdBy: user }
    await db.begin((tx) => insertWebhook(tx, org, webhook, 1_000_000))
    return { id, secret, url }
  }

  const publishOne = async (org: OrgId = orgId, name = 'main') => {
    const event = { orgId: org, type: 'database.created', data: { database_id: newId('db'), name } } as const
    return transact((tx) => publish(tx, event))
  }

  const attempts = async () => db<AttemptRow[]>`
    select a.*, a.event_seq::int, l.webhook_id from keyhook.attempts a join keyhook.lanes l on l.id = a.lane_id
    order by a.id`

  return {
    ...installation,
    ...world,
    orgId,
    owner,
    hints,
    transact,
    addWebhook,
    publishOne,
    attempts,
    async startDispatcher() {
      const engine = await dispatcherAlone(installation, log, hints)
      onTestFinished(() => engine.stop())
      return engine
    },
  }
}
