import { randomBytes } from 'node:crypto'
import { Agent } from 'node:https'
import { describe, expect, onTestFinished, test } from 'vitest'
import { caFile, receiverFor } from '../delivery/support/receiver.ts'
import { freePort } from '../kit/free-port.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { bridgeTo, type Running, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { choosePorts, proxyPrograms, startProxy } from './proxy-programs.ts'

/*
 * Two processes with the API and two dispatchers are restarted one after the other behind a proxy, while clients publish and read. With
 * the settings of the samples and the default of KEYHOOK_HTTP_DRAIN_MS.
 */

const clients = 8

async function startInstallation() {
  const environment = {
    KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8',
    KEYHOOK_DELIVERY_CA_FILE: caFile,
    KEYHOOK_MASTER_KEY: randomBytes(32).toString('base64'),
    KEYHOOK_TRUSTED_PROXIES: '127.0.0.1',
    KEYHOOK_HTTP_DRAIN_MS: '5000',
    KEYHOOK_LOG_LEVEL: 'warn',
  }
  const installation = await createInstallation(environment)
  onTestFinished(() => installation.close())
  const { url: DATABASE_URL } = await bridgeTo(installation.target)
  const start = (role: string, port: number) =>
    serve({ ...environment, DATABASE_URL, PORT: String(port) }, ['--json', '--role', role])
  return { installation, start }
}

describe.each(proxyPrograms)('$title', (proxy) => {
  test.skipIf(!proxy.installed)(
    'every process is restarted under load: no 5xx, nothing lost, nothing twice',
    async () => {
      const { installation, start } = await startInstallation()
      const world = people(installation)
      const orgId = await world.organization()
      const { token } = await world.person([{ orgId, role: 'owner' }])
      const operator = await world.operatorToken()
      const keyhook = [await freePort(), await freePort()] as const
      const processes: { role: string; port: number; running: Running }[] = []
      for (const [role, port] of [
        ['api', keyhook[0]],
        ['api', keyhook[1]],
        ['dispatcher', 0],
        ['dispatcher', 0],
      ] as const)
        processes.push({ role, port, running: await start(role, port) })
      const running = await startProxy(proxy, { ...(await choosePorts()), keyhook })
      onTestFinished(() => running.stop())
      const receiver = await receiverFor()
      const webhooks = `/api/v1/organizations/${orgId}/webhooks`
      const body = { url: receiver.url, event_types: ['invoice.paid'] }
      expect((await running.send('POST', webhooks, { token, body })).status).toBe(201)

      const answers = new Set<string>()
      const published: string[] = []
      let isOver = false
      /** No id of its own: an event that was sent twice would be there twice. */
      async function client(name: number): Promise<void> {
        const agent = new Agent({ keepAlive: true, maxSockets: 1 })
        for (let i = 0; !isOver; i++) {
          const invoice = `${name}-${i}`
          const event = { organization_id: orgId, type: 'invoice.paid', data: { invoice } }
          const sent = await running.send('POST', '/operator/v1/events', { token: operator, body: event, agent })
          if (sent.status === 202) published.push(invoice)
          const read = await running.send('GET', '/api/v1/organizations', { token, agent })
          answers.add(`POST ${sent.status === 202 ? 202 : `${sent.status} ${sent.text}`}`)
          answers.add(`GET ${read.status === 200 ? 200 : `${read.status} ${read.text}`}`)
        }
        agent.destroy()
      }
      const load = Promise.all(Array.from({ length: clients }, (_, name) => client(name)))
      const more = async () => {
        const before = published.length
        await until(() => published.length > before + 200)
      }
      try {
        await more()
        for (const one of processes) {
          const { code, stderr } = await one.running.stop('SIGTERM')
          expect([code, stderr]).toEqual([0, ''])
          one.running = await start(one.role, one.port)
          await more()
        }
      } finally {
        isOver = true
        await load
      }

      expect([...answers].sort()).toEqual(['GET 200', 'POST 202'])
      const rows = await installation.db<{ invoice: string }[]>`
      select body::jsonb -> 'data' ->> 'invoice' as invoice from keyhook.events where org_id = ${orgId}`
      expect(rows.map(({ invoice }) => invoice).sort()).toEqual(published.sort())
      const received = () => receiver.received.map((one) => JSON.parse(one.body.toString()).data.invoice as string)
      await until(() => new Set(received()).size === published.length)
      // A dispatcher that stops waits for its requests in flight, so none is sent again.
      expect(received().sort()).toEqual(published)
    },
  )
})
