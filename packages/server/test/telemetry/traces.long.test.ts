import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { startOtlpReceiver } from './otlp-receiver.ts'

/*
 * Two processes export to one receiver: one has the API alone, the other one delivers and works on jobs.
 */

const kinds = { server: 2, client: 3, producer: 4, consumer: 5 }

async function tracedProcesses() {
  const otlp = await startOtlpReceiver()
  const environment = { ...deliveryEnvironment, KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64') }
  const installation = await createInstallation(environment)
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const traced = {
    ...environment,
    DATABASE_URL: bridge.url,
    KEYHOOK_LOG_LEVEL: 'error',
    OTEL_EXPORTER_OTLP_ENDPOINT: otlp.url,
    OTEL_BSP_SCHEDULE_DELAY: '100',
  }
  const api = await serve({ ...traced, OTEL_SERVICE_NAME: 'keyhook-api' }, ['--json', '--role', 'api'])
  await serve({ ...traced, OTEL_SERVICE_NAME: 'keyhook-work' })
  const world = people(installation)
  const orgId = await world.organization()
  const { token } = await world.person([{ orgId, role: 'owner' }])
  const receiver = await receiverFor()
  const secretPath = `secret-${randomBytes(8).toString('hex')}`
  const body = {
    url: `${receiver.url}/${secretPath}?key=${secretPath}`,
    event_types: ['invoice.paid', 'database.created'],
  }
  const added = await call<{ secret: string }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })
  expect(added.status).toBe(201)
  /** The one span of a trace with this name, once it has arrived. */
  const spanOf = (traceId: string, name: string) =>
    until(() => otlp.spans.find((span) => span.traceId === traceId && span.name === name))
  return {
    ...otlp,
    ...world,
    db: installation.db,
    api,
    orgId,
    token,
    receiver,
    spanOf,
    secrets: [secretPath, added.body.secret],
  }
}

test('one trace leads from the request of a caller to the delivery, and from a request through its jobs', async () => {
  const world = await tracedProcesses()
  const { api, orgId, spanOf, receiver } = world
  const operator = await world.operatorToken()
  const traceId = randomBytes(16).toString('hex')
  const callerSpan = randomBytes(8).toString('hex')
  const marker = `body-${randomBytes(8).toString('hex')}`
  const reported = await call(`${api.url}/operator/v1/events`, {
    token: operator,
    headers: { traceparent: `00-${traceId}-${callerSpan}-01` },
    body: { organization_id: orgId, type: 'invoice.paid', data: { marker } },
  })
  expect(reported.status).toBe(202)
  const request = await spanOf(traceId, 'POST /operator/v1/events')
  const published = await spanOf(traceId, 'publish')
  const delivered = await spanOf(traceId, 'deliver invoice.paid')
  expect(request).toMatchObject({ service: 'keyhook-api', parentId: callerSpan, kind: kinds.server })
  expect(request.attributes).toMatchObject({ 'http.response.status_code': 202 })
  expect(published).toMatchObject({ service: 'keyhook-api', parentId: request.spanId, kind: kinds.producer })
  expect(delivered).toMatchObject({ service: 'keyhook-work', parentId: published.spanId, kind: kinds.client })
  expect(delivered.attributes).toMatchObject({
    'server.address': '127.0.0.1',
    'http.response.status_code': 200,
    'keyhook.delivery.attempt': 1,
    'keyhook.delivery.finished': true,
  })
  // The interface says which headers a delivery has.
  expect(Object.keys(receiver.received[0]!.headers)).not.toContain('traceparent')

  const databaseTrace = randomBytes(16).toString('hex')
  const created = await call(`${api.url}/platform/v1/organizations/${orgId}/databases`, {
    token: world.token,
    headers: { traceparent: `00-${databaseTrace}-${callerSpan}-01` },
    body: { name: 'first' },
  })
  expect(created.status).toBe(202)
  const chain = ['job database.place', 'job database.provision', 'publish database.created', 'deliver database.created']
  let parent = await spanOf(databaseTrace, 'POST /platform/v1/organizations/:orgId/databases')
  for (const name of chain) {
    const span = await spanOf(databaseTrace, name)
    expect(span).toMatchObject({ service: 'keyhook-work', parentId: parent.spanId })
    parent = span
  }
  const provision = await spanOf(databaseTrace, 'job database.provision')
  expect(provision.kind).toBe(kinds.consumer)
  expect(provision.events).toEqual(expect.arrayContaining(['provision.creating', 'provision.settling']))

  // No body, no token, no secret, and no path or query of a receiver.
  const exported = Buffer.concat(world.bodies).toString('latin1')
  expect(exported).toContain('deliver invoice.paid')
  for (const secret of [marker, operator, world.token, ...world.secrets]) expect(exported).not.toContain(secret)
})

test('a caller whose trace is not sampled gets none, and nothing of it is stored with the event', async () => {
  const world = await tracedProcesses()
  const report = async (flags: string) => {
    const traceId = randomBytes(16).toString('hex')
    await call(`${world.api.url}/operator/v1/events`, {
      token: await world.operatorToken(),
      headers: { traceparent: `00-${traceId}-${'1'.repeat(16)}-${flags}` },
      body: { organization_id: world.orgId, type: 'invoice.paid', data: {} },
    })
    return traceId
  }
  const unsampled = await report('00')
  await until(() => world.receiver.received.length === 1)
  const sampled = await report('01')
  await world.spanOf(sampled, 'deliver invoice.paid')
  expect(world.spans.filter(({ traceId }) => traceId === unsampled)).toEqual([])
  const stored = await world.db<{ traceparent: string | null }[]>`select traceparent from keyhook.events order by seq`
  expect(stored.map(({ traceparent }) => traceparent)).toEqual([null, expect.stringContaining(sampled)])
})

test('a collector that does not answer is logged, and nothing waits for it', async () => {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const api = await serve(
    {
      DATABASE_URL: bridge.url,
      KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${await freePort()}/v1/traces`,
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_BSP_SCHEDULE_DELAY: '100',
    },
    ['--json', '--role', 'api'],
  )
  expect((await call(`${api.url}/api/v1/organizations`)).status).toBe(401)
  await until(() => api.output().stderr.includes('traces.not_exported'))
  expect((await call(`${api.url}/api/v1/organizations`)).status).toBe(401)
})
