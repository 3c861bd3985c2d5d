import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { deliveryTest } from '../delivery/support/delivery-test.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { localProgram, startListen } from './support/listening.ts'
import { openTerminal } from './support/terminal.ts'

const masterKey = Buffer.alloc(32, 7).toString('base64')
const eventCount = 400

/*
 * `keyhook listen` and the server are killed under load. At the program, nothing may be missing, and at most the event that
 * was in flight may come twice.
 */
test('kill -9 of listen and of the server loses no event, and repeats at most the one in flight', {
  timeout: 120_000,
}, async () => {
  const world = await deliveryTest({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(world.target)
  const environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey, KEYHOOK_LOG_LEVEL: 'silent' }
  const start = (PORT: string) => serve({ ...environment, PORT }, ['--role', 'api', '--json'])
  let server = await start('0')
  const { url } = server
  const { env } = await openTerminal({ KEYHOOK_URL: url, KEYHOOK_TOKEN: world.owner.token })
  const program = await localProgram(() => 204, 5)
  const args = ['--forward-to', program.url]
  let listen = await startListen(env, ...args)

  const published: string[] = []
  const publishing = (async () => {
    for (let i = 0; i < eventCount; i++) {
      published.push(await world.publishOne())
      await setTimeout(5)
    }
  })()
  const seen = (share: number) => expect.poll(() => program.posts.length).toBeGreaterThan(eventCount * share)
  let kills = 0
  for (const share of [0.1, 0.3, 0.5]) {
    await seen(share)
    await listen.kill('SIGKILL')
    kills += 1
    listen = await startListen(env, ...args)
  }
  await seen(0.6)
  await server.stop('SIGKILL')
  server = await start(new URL(url).port)
  await publishing
  const ids = () => program.posts.map(({ headers }) => String(headers['webhook-id']))
  await expect.poll(() => new Set(ids()).size).toBe(eventCount)
  // Once, however often it was tried.
  expect(listen.stderr().split('The connection was lost')).toHaveLength(2)
  expect(listen.stderr().split('The connection works again.')).toHaveLength(2)

  // First arrivals are in the order of the events, and repetitions have the same body.
  expect([...new Set(ids())]).toEqual(published)
  expect(program.posts.length - eventCount).toBeLessThanOrEqual(kills)
  const bodies = new Set(program.posts.map(({ headers, body }) => `${headers['webhook-id']} ${body}`))
  expect(bodies.size).toBe(eventCount)
})
