import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { call } from '../kit/client.ts'
import { createInstallation } from '../kit/installation.ts'
import { bridgeTo, scratchDirectory, serve } from '../kit/processes.ts'
import { metricOf, readMetrics } from './metrics-text.ts'
import { alertRules, dashboardQueries, metricsIn, monitoringFolder, withoutGrouping } from './monitoring-files.ts'
import '../kit/server-limits.ts'

/*
 * docs/monitoring.md, the dashboard and the alerts against the /metrics of a real server with all roles.
 */

const docs = readFileSync(fileURLToPath(new URL('../../../../docs/monitoring.md', import.meta.url)), 'utf8')
const documents = 'https://docs.example.com/keyhook'
const hasPromtool = spawnSync('promtool', ['--version']).status === 0
const needsPromtool = hasPromtool
  ? ''
  : ' (skipped: promtool is not installed; Debian has it in the package prometheus)'
const promtool = (...args: string[]) => promisify(execFile)('promtool', args)

/** The server is stopped with the first test that asks. */
let page: Promise<string> | undefined
const servedPage = (): Promise<string> => {
  page ??= pageOfServer()
  return page
}

async function pageOfServer(): Promise<string> {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const server = await serve({
    DATABASE_URL: bridge.url,
    KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
    KEYHOOK_LOG_LEVEL: 'error',
  })
  await call(`${server.url}/api/v1/organizations`)
  return (await call(`${server.url}/metrics`)).text
}

test('the table of docs/monitoring.md has every metric of a running server, with its type and labels', async () => {
  const rows = [...docs.matchAll(/^\| `(keyhook_\w+)` \| (\w+) \| ([^|]*)\|/gm)].map(
    ([, name, type, labels]) =>
      [name!, { type: type!, labels: [...labels!.matchAll(/`(\w+)`/g)].map((found) => found[1]) }] as const,
  )
  const documented = new Map(rows)
  const { types, samples } = readMetrics(await servedPage())
  const served = [...types].filter(([name]) => name.startsWith('keyhook_'))
  expect(rows.map(([name, { type }]) => [name, type]).sort()).toEqual(served.sort())
  for (const { name, labels } of samples) {
    const row = documented.get(metricOf(types, name))
    if (row !== undefined)
      expect(
        Object.keys(labels).filter((label) => label !== 'le'),
        name,
      ).toEqual(row.labels)
  }
})

test('every metric in the dashboard and in the alerts is one of a running server', async () => {
  const { types } = readMetrics(await servedPage())
  // Of Prometheus itself, for every target.
  const known = new Set([...types.keys(), 'up'])
  const used = [...dashboardQueries(), ...alertRules().map(({ expr }) => expr)].flatMap(metricsIn)
  expect(used.length).toBeGreaterThan(60)
  expect(
    [...new Set(used.map((name) => (known.has(name) ? name : metricOf(types, name))))].filter(
      (name) => !known.has(name),
    ),
  ).toEqual([])
})

test('cluster-wide metrics are never added up over processes', () => {
  const queries = [...dashboardQueries(), ...alertRules().map(({ expr }) => expr)].map(withoutGrouping)
  expect(queries.filter((query) => /\b(sum|count|avg)\s*\(\s*keyhook_cluster_/.test(query))).toEqual([])
  expect(queries.filter((query) => /\bmax\s*\(\s*keyhook_cluster_/.test(query)).length).toBeGreaterThan(10)
})

test('every alert links to a section about it', () => {
  const headings = new Set([...docs.matchAll(/^### (\w+)$/gm)].map(([, heading]) => heading!))
  const alerts = alertRules()
  expect([...headings].sort()).toEqual(alerts.map(({ alert }) => alert).sort())
  // The sample host, which monitoring.md says how to replace: a receiver of alerts cannot follow a path in a repository.
  for (const { alert, runbook } of alerts) expect(runbook).toBe(`${documents}/monitoring.md#${alert.toLowerCase()}`)
  expect(docs).toContain(`s|${documents}|`)
})

test.skipIf(!hasPromtool)(`promtool finds nothing to correct in the metrics${needsPromtool}`, async () => {
  const { status, stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], { input: await servedPage() })
  const ours = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('keyhook_'))
  expect([ours, status === 0 || status === 3]).toEqual([[], true])
})

test.skipIf(!hasPromtool)(
  `promtool accepts the rules and the configuration, and the alerts fire as tested${needsPromtool}`,
  async () => {
    const folder = await scratchDirectory()
    await cp(monitoringFolder, folder, { recursive: true })
    await writeFile(join(folder, 'keyhook-metrics-token'), 'x')
    expect((await promtool('check', 'rules', join(folder, 'keyhook.rules.yml'))).stdout).toContain('SUCCESS')
    expect((await promtool('check', 'config', join(folder, 'prometheus.yml'))).stdout).toContain('SUCCESS')
    const tested = promtool('test', 'rules', join(folder, 'keyhook.rules.test.yml'))
    expect((await tested).stdout).toContain('SUCCESS')
  },
)
