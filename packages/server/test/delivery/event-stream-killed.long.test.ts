import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { publishEvents } from '../../src/delivery/publish.ts'
import { newId } from '../../src/lib/ids.ts'
import { openStream } from '../http/support/event-stream.ts'
import { startApiForTest } from '../kit/installation.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'

test('a reader of servers that are killed gets every event once and in order', async () => {
  const masterKey = randomBytes(32).toString('base64')
  const api = await startApiForTest({ KEYHOOK_MASTER_KEY: masterKey })
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'member' }])
  const environment = {
    DATABASE_URL: (await bridgeTo(api.target)).url,
    KEYHOOK_MASTER_KEY: masterKey,
    KEYHOOK_LOG_LEVEL: 'error',
  }
  const start = () => serve(environment, ['--json', '--role', 'api'])
  let isOver = false
  const publishing = (async () => {
    while (!isOver) {
      const events = ['a', 'b'].map(() => ({ id: newId('evt'), type: 'invoice.paid', body: '{}' }) as const)
      await publishEvents(api.db, orgId, events)
      await sleep(10)
    }
  })()
  onTestFinished(() => {
    isOver = true
  })

  const got: number[] = []
  const path = `/platform/v1/organizations/${orgId}/events/stream`
  const servers = await Promise.all([start(), start()])
  for (const server of servers) {
    const stream = await openStream(server.url + path, token, { 'last-event-id': String(got.at(-1) ?? 0) })
    await until(() => stream.numbers().length > 20)
    await server.stop('SIGKILL')
    await stream.ended
    got.push(...(stream.numbers() as number[]))
  }
  isOver = true
  await publishing
  const rest = await openStream(api.url + path, token, { 'last-event-id': String(got.at(-1)) })
  const [counter] = await api.db`select last_sequence::int as last from keyhook.event_counters where org_id = ${orgId}`
  await until(() => (rest.numbers().at(-1) ?? got.at(-1)) === counter!.last)
  got.push(...(rest.numbers() as number[]))
  expect(got).toEqual(Array.from({ length: counter!.last }, (_, i) => i + 1))
})
