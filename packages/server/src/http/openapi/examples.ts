import type { Json } from '../basis.ts'

const userId = 'usr_01m7n2bk5vfamv24tpe8shekmc'
const keyId = 'key_01m7n2bkb1esqrxng4zjy1g1xd'
const webhookId = 'wh_01m7n2bkfpferb0jmacpypmjm6'
const attemptId = 'dlv_01m7n2bkmseh091bmd0d7ztqn8'
const eventId = 'evt_01m7n2bm7af259x2adjjzbmn7m'
const databaseId = 'db_01m7n2bmwmf6ftn8ytaekk7ec7'
const restoredId = 'db_01m7n2bq3cfk8t1v0a5d9w7zej'
const backupId = 'bak_01m7n2bnh4fk2tjd96xr5ny6p3'
const createdAt = '2026-01-31T12:00:00.000Z'
const finishedAt = '2026-01-31T12:00:41.318Z'
const url = 'https://example.com/hooks'

const eventText = `{"id":"${eventId}","type":"database.created","timestamp":"${createdAt}","data":{"database_id":"${databaseId}","name":"orders"}}`

/** The ids and the time that the examples of events use, so that they match the examples of records. */
export const exampleEvent = { id: eventId, timestamp: createdAt }

const webhook = { id: webhookId, url, event_types: ['database.created', 'database.failed'], created_at: createdAt }

const invitation = {
  id: 'ivt_01m7n2bkb1esqrxng4zjy1g1xd',
  email: 'grace@example.com',
  role: 'member',
  created_by: userId,
  created_at: createdAt,
  expires_at: '2026-02-07T12:00:00.000Z',
}

const webhookDetails = {
  ...webhook,
  description: 'Orders to the warehouse',
  status: 'active',
  paused_until: null,
  rate_limit: 50,
  secret_rotation: null,
  created_by: userId,
  health: {
    since: createdAt,
    succeeded: 1_439,
    failed: 1,
    success_share: 1_439 / 1_440,
    last_failure: { delivery_id: attemptId, at: finishedAt, error_code: 'timeout', response_status: null },
    oldest_waiting_at: null,
  },
}

const delivery = {
  id: attemptId,
  event_id: eventId,
  event_type: 'database.created',
  attempt: 1,
  status: 'succeeded',
  started_at: createdAt,
  duration_ms: 48.2,
  request: {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', 'webhook-id': eventId },
    address: '203.0.113.7',
    timings: { dns_ms: 1.4, connect_ms: 9.8, tls_ms: 21.3, first_byte_ms: 47.9, total_ms: 48.2 },
  },
  response: { status: 200, headers: { 'content-type': 'text/plain' }, body: 'ok', body_truncated: false },
  error: null,
  next_attempt_at: null,
}

const outcomes = { succeeded: 1_439, failed: 1, p50_ms: 48.2, p95_ms: 112.5 }

const provisioning = {
  id: databaseId,
  name: 'orders',
  status: 'provisioning',
  host: null,
  port: null,
  user: 'app',
  database: 'app',
  connection_string: null,
  storage: null,
  failure: null,
  recovery_window: null,
  recovery_problem: null,
  created_at: createdAt,
}

const restore = {
  id: 'rst_01m7n2bnpbfakv91xcp75nx9a8',
  backup_id: backupId,
  database_id: restoredId,
  to: null,
  status: 'running',
  bytes_done: 8_388_608,
  bytes_total: 33_554_432,
  failure: null,
  created_at: createdAt,
  finished_at: null,
}

const invoice = {
  id: 'inv_01m7n2bntqfewb611tve6wvtje',
  month: '2026-01',
  status: 'issued',
  currency: 'EUR',
  total_minor: 1_488,
  issued_at: '2026-02-01T00:00:03.112Z',
  paid_at: null,
}

const invoiceLine = {
  database_id: databaseId,
  name: 'orders',
  seconds: 2_678_400,
  hour_price_minor: 2,
  amount_minor: 1_488,
}

const operatorToken = {
  id: 'tok_01m7n2bk2xf3gr1c6v8d0e5zha',
  name: 'gateway',
  created_at: createdAt,
  expires_at: '2026-02-01T00:00:00.000Z',
  created_by: null,
  revoked_at: null,
}

const password = 'ExampleExampleExampleExample0000'

/** One example for each record of an answer, by the name of its schema. Their ids match. */
export const recordExamples: Record<string, Json> = {
  Organization: { id: 'org_01m7n2bk0jfqevvcnkz350c026', name: 'Acme', created_at: createdAt },
  CreatedApiKey: {
    id: keyId,
    name: 'ci',
    key_prefix: 'kh_Example1',
    api_key: 'kh_Example1_ExampleExampleExampleExample0000',
  },
  ApiKey: {
    id: keyId,
    name: 'ci',
    key_prefix: 'kh_Example1',
    status: 'active',
    created_by: userId,
    created_by_key: null,
    creator_left: false,
    created_at: createdAt,
    last_used_at: null,
  },
  EventType: {
    name: 'database.created',
    description: 'A database finishes provisioning successfully.',
    custom: false,
    example: {
      id: eventId,
      type: 'database.created',
      timestamp: createdAt,
      data: { database_id: databaseId, name: 'orders' },
    },
  },
  OrganizationMember: {
    user_id: userId,
    email: 'grace@example.com',
    name: 'Grace',
    verified: true,
    role: 'admin',
    created_at: createdAt,
  },
  OrganizationSettings: { name: 'Globex' },
  NewRole: { role: 'admin' },
  NewInvitation: { email: 'grace@example.com', role: 'member' },
  Invitation: invitation,
  CreatedInvitation: {
    ...invitation,
    link: 'https://keyhook.example.com/console/invitation#ZXhhbXBsZS1zZWNyZXQtZXhhbXBsZS1zZWNyZXQtMDE',
  },
  OpenedOrganization: { token: 'eyJhbGciOiJFZERTQSJ9.e30.c2ln', expires_at: '2026-01-31T12:15:00.000Z' },
  Overview: {
    organizations: 12,
    users: 40,
    deliveries: { waiting: 3, retries: 1, in_flight: 2, oldest_waiting_at: createdAt },
    nodes: [{ id: 'node-1', databases: 4, databases_max: 100, seen_at: createdAt, is_silent: false }],
    busy_lanes: 1,
    lanes: [
      {
        organization_id: 'org_01m7n2bk0gf9wsrk7r5ysr2k5z',
        organization_name: 'Globex',
        webhook_id: webhookId,
        url,
        oldest_waiting_at: createdAt,
        due_at: createdAt,
        leased_by: null,
        paused_until: null,
      },
    ],
  },
  DatabaseStats: { size_bytes: 8_134_656, connections: 3, connections_max: 55, at: createdAt },
  DatabaseBackupSchedule: { every_hours: 24, keep: 7 },
  RevokedApiKeys: { revoked: [keyId] },
  CreatedWebhook: { ...webhook, secret: 'whsec_ZXhhbXBsZS1zZWNyZXQtZXhhbXBsZS1zZWNyZXQtMDE=' },
  Webhook: webhook,
  WebhookDetails: webhookDetails,
  RotatedSecret: {
    secret: 'whsec_ZXhhbXBsZS1zZWNyZXQtZXhhbXBsZS1zZWNyZXQtMDI=',
    secret_rotation: { started_at: createdAt, ends_at: '2026-02-01T12:00:00.000Z', switched: false },
  },
  Delivery: delivery,
  OrganizationDelivery: { webhook_id: webhookId, ...delivery },
  DeliverySummary: {
    since: '2026-01-30T12:00:00.000Z',
    until: createdAt,
    bucket_seconds: 3_600,
    ...outcomes,
    buckets: [{ at: '2026-01-31T11:00:00.000Z', ...outcomes }],
    webhooks: [{ webhook_id: webhookId, ...outcomes }],
  },
  TestEvent: { event_id: eventId },
  Redelivery: { delivery_id: attemptId },
  StartedRecovery: { id: 'rcv_01m7n2bnzbfahrvjs09dft6kv6', matching: 12 },
  Recovery: {
    id: 'rcv_01m7n2bnzbfahrvjs09dft6kv6',
    status: 'finished',
    since: '2026-01-31T00:00:00.000Z',
    until: createdAt,
    redelivered: 12,
    created_at: createdAt,
    finished_at: finishedAt,
  },
  Event: {
    id: eventId,
    sequence: 42,
    type: 'database.created',
    created_at: createdAt,
    test: false,
    body: eventText,
    delivered_to: [
      {
        webhook_id: webhookId,
        url,
        status: 'succeeded',
        attempts: [
          {
            id: attemptId,
            attempt: 1,
            status: 'succeeded',
            started_at: createdAt,
            duration_ms: 48.2,
            response_status: 200,
            error_code: null,
            next_attempt_at: null,
          },
        ],
      },
    ],
    not_delivered_to: [],
  },
  EventRecord: {
    sequence: 42,
    id: eventId,
    type: 'database.created',
    created_at: createdAt,
    body: eventText,
  },
  AcceptedEvent: { id: eventId },
  User: { id: userId, email: 'hank@example.com', name: 'Hank', subject: null, verified: true, created_at: createdAt },
  Member: { organization_id: 'org_01m7n2bk0jfqevvcnkz350c026', user_id: userId, role: 'owner' },
  OperatorToken: operatorToken,
  IssuedOperatorToken: { ...operatorToken, token: 'eyJhbGciOiJFZERTQSIsInR5cCI6ImF0K2p3dCJ9.example.example' },
  Introspection: {
    active: true,
    token_type: 'api_key',
    sub: userId,
    organization_id: 'org_01m7n2bk0jfqevvcnkz350c026',
    role: 'member',
    permissions: ['organizations:read', 'keys:create:own', 'webhooks:read'],
    key_id: keyId,
  },
  AuditEntry: {
    id: 'aud_01m7n2bp50fvn9e8ftc1ayx8e8',
    at: createdAt,
    action: 'key.created',
    actor: { kind: 'login', user_id: userId, credential: 'tok_01m7n2bk2xf3gr1c6v8d0e5zha', address: '203.0.113.20' },
    target_id: keyId,
    details: { name: 'ci', key_prefix: 'kh_Example1' },
  },
  CreatedDatabase: { ...provisioning, password },
  Database: {
    ...provisioning,
    status: 'available',
    host: '127.0.0.1',
    port: 5433,
    connection_string: 'postgres://app@127.0.0.1:5433/app?sslmode=verify-full',
    storage: {
      used_bytes: 41_943_040,
      limit_bytes: 10_737_418_240,
      state: 'normal',
      message: null,
      measured_at: finishedAt,
    },
    recovery_window: { from: '2026-01-24T12:00:00.000Z', to: createdAt },
  },
  Backup: {
    id: backupId,
    database_id: databaseId,
    status: 'completed',
    origin: 'requested',
    bytes_done: 33_554_432,
    bytes_total: 33_554_432,
    size_bytes: 4_718_592,
    sha256: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    failure: null,
    created_at: createdAt,
    finished_at: finishedAt,
  },
  Restore: restore,
  CreatedRestore: { restore, database: { ...provisioning, id: restoredId, name: 'orders-copy', password } },
  InvoiceSummary: invoice,
  InvoiceLine: invoiceLine,
  Invoice: { ...invoice, lines: [invoiceLine] },
}

/** The smallest value that a schema takes, from the examples beside its parts. */
export function exampleOf(schema: Json): unknown {
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if (typeof schema.$ref === 'string') return recordExamples[schema.$ref.split('/').at(-1)!]
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (Array.isArray(schema.anyOf)) return exampleOf(schema.anyOf[0] as Json)
  if (schema.type === 'array') return [exampleOf(schema.items as Json)]
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] }
  return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name]!)]))
}
