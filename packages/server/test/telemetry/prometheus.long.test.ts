import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { freePort } from '../kit/free-port.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { bridgeTo, scratchDirectory, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { alertRules, dashboardPanels, monitoringFolder } from './monitoring-files.ts'

/*
 * A real Prometheus scrapes a real Keyhook while one of two receivers hangs, and answers every query of the dashboard.
 */

const hasPrometheus = spawnSync('prometheus', ['--version']).status === 0
const why = hasPrometheus ? '' : ' (skipped: prometheus is not installed; Debian has it in the package prometheus)'

/** Nothing is in them as long as nothing fails and no job waits. */
const mayBeEmpty = ['Jobs', 'Failed jobs']

async function startPrometheus(target: string) {
  const folder = await scratchDirectory()
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(monitoringFolder, 'keyhook.rules.yml')],
    scrape_configs: [{ job_name: 'keyhook', static_configs: [{ targets: [target] }] }],
  }
  await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const port = await freePort()
  const child = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  const ended = once(child, 'close')
  onTestFinished(async () => {
    child.kill()
    await ended
  })
  const url = `http://127.0.0.1:${port}`
  const isReady = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(isReady)
  return {
    url,
    /** The values of all series; throws if Prometheus does not accept the query. */
    async query(expr: string): Promise<number[]> {
      const answer = await fetch(`${url}/api/v1/query`, { method: 'POST', body: new URLSearchParams({ query: expr }) })
      const body = (await answer.json()) as {
        status: string
        error?: string
        data: { result: { value: [number, string] }[] }
      }
      if (body.status !== 'success') throw new Error(`${expr}: ${body.error}`)
      return body.data.result.map(({ value }) => Number(value[1]))
    },
  }
}

test.skipIf(!hasPrometheus)(`every query of the dashboard has data, and shows which receiver hangs${why}`, async () => {
  const environment = { ...deliveryEnvironment, KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64') }
  const installation = await createInstallation(environment)
  onTestFinished(() => installation.close())
  const world = people(installation)
  const orgId = await world.organization()
  const { token } = await world.person([{ orgId, role: 'owner' }])
  const bridge = await bridgeTo(installation.target)
  const server = await serve({ ...environment, DATABASE_URL: bridge.url, KEYHOOK_LOG_LEVEL: 'error' })
  const prometheus = await startPrometheus(new URL(server.url).host)
  // A rate needs a sample from before the job, which may take less than a scrape interval.
  const scraped = () => prometheus.query('keyhook_job_duration_seconds_count')
  await until(async () => (await scraped()).length > 0)

  const hung = await receiverFor(() => new Promise(() => {}))
  const fast = await receiverFor()
  for (const { url } of [hung, fast]) {
    const body = { url, event_types: ['database.created', 'invoice.paid'] }
    const added = await call(`${server.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })
    expect(added.status, server.output().stderr).toBe(201)
  }
  const platform = `${server.url}/platform/v1/organizations/${orgId}`
  expect((await call(`${platform}/databases`, { token, body: { name: 'first' } })).status).toBe(202)

  const operator = await world.operatorToken()
  const stopping = new AbortController()
  const publishing = (async () => {
    while (!stopping.signal.aborted) {
      const event = { organization_id: orgId, type: 'invoice.paid', data: { invoice_id: newId('inv') } }
      await call(`${server.url}/operator/v1/events`, { token: operator, body: event })
      await call(`${server.url}/api/v1/organizations`)
      await sleep(50)
    }
  })()
  try {
    const missing = dashboardPanels('20s')
      .filter(({ title }) => !mayBeEmpty.includes(title))
      .flatMap(({ title, queries }) => queries.map((query) => ({ title, query })))
    expect(missing.length).toBeGreaterThan(40)
    // One after the other: a job that has ended is shown for some seconds only.
    const stillMissing = async () => {
      for (const one of [...missing]) {
        const values = await prometheus.query(one.query)
        if (values.some(Number.isFinite)) missing.splice(missing.indexOf(one), 1)
      }
      return missing
    }
    await expect.poll(stillMissing, { timeout: 120_000, interval: 1_000 }).toEqual([])
    for (const query of dashboardPanels('20s').flatMap(({ queries }) => queries)) await prometheus.query(query)
    for (const { expr } of alertRules()) await prometheus.query(expr)

    // What waits is in one lane; half of all deliveries go to the other, and their lag is not that of the first.
    await installation.db`update keyhook.events set created_at = created_at - interval '1 hour'`
    const value = async (query: string) => (await prometheus.query(query))[0] ?? 0
    await until(async () => (await value('max(keyhook_cluster_lanes_late)')) === 1)
    await until(
      async () =>
        (await value(
          'max(keyhook_cluster_deliveries_waiting{kind="first"}) - max(keyhook_cluster_lane_waiting_max)',
        )) === 0 && (await value('max(keyhook_cluster_lane_waiting_max)')) > 10,
    )
    expect(await value('max(keyhook_cluster_deliveries_oldest_waiting_seconds)')).toBeGreaterThan(3_500)
    const before = fast.received.length
    await until(() => fast.received.length > before + 20)
  } finally {
    stopping.abort()
    await publishing
  }
})
