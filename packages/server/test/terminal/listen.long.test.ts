import { verifyWebhook } from '@keyhook/client'
import { expect, onTestFinished, test } from 'vitest'
import { composeHints } from '../../src/compose/dispatcher.ts'
import { createTransact } from '../../src/db/database.ts'
import type { EventType } from '../../src/delivery/events.ts'
import { publish } from '../../src/delivery/publish.ts'
import { mintWebhookSecret } from '../../src/webhooks/rules.ts'
import { captureLog } from '../kit/captured-log.ts'
import { localProgram, startCommand, startListen } from './support/listening.ts'
import { ownersTerminal } from './support/terminal.ts'

/** A server, a customer's terminal, and a way to make something happen. */
async function world() {
  const given = await ownersTerminal()
  const hints = composeHints(given.api, captureLog().log)
  const transact = createTransact(given.api.db, hints.give)
  const happen = (name: string, type: EventType = 'database.created') =>
    transact((tx) => publish(tx, { orgId: given.orgId, type, data: { database_id: 'db_1', name } } as never))
  return { ...given, happen }
}

const namesOf = (posts: { body: string }[]) => posts.map(({ body }) => JSON.parse(body).data.name)

test('events reach a local program with the headers of a delivery and valid signatures', async () => {
  const { terminal, happen } = await world()
  await happen('before it was started')
  const { posts, url } = await localProgram(() => 204)
  const secret = mintWebhookSecret()
  const environment = { ...terminal.env, KEYHOOK_WEBHOOK_SECRET: secret }
  const listen = await startListen(environment, '--forward-to', url)
  expect(listen.stderr()).not.toContain(secret)
  const ids = [await happen('one'), await happen('two')]
  await expect.poll(() => namesOf(posts)).toEqual(['one', 'two'])
  for (const [i, { headers, body }] of posts.entries()) {
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'Keyhook/1',
      'x-service-event': 'database.created',
      'x-service-sequence': String(i + 2),
      'webhook-id': ids[i],
    })
    expect(headers['x-service-previous-sequence']).toBe(i === 0 ? undefined : '2')
    for (const signature of ['body', 'standard'] as const)
      expect(await verifyWebhook({ body, headers, secret, signature })).toMatchObject({ id: ids[i] })
  }
  await expect
    .poll(() => listen.stdout().trim().split('\n'))
    .toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\d {2}#2 {2}database\.created {2}attempt 1 {2}204 {2}\d+ ms$/),
      expect.stringMatching(/#3 {2}database\.created {2}attempt 1 {2}204/),
    ])
})

test('a failing program is tried again before the next event, and then given up', async () => {
  const { terminal, happen } = await world()
  const answers = [500, 204, 500, 500, 500, 204]
  const { posts, url } = await localProgram((n) => answers[n] ?? 204)
  const listen = await startListen(terminal.env, '--forward-to', url, '--attempts', '3', '--json')
  for (const name of ['retried', 'given up', 'next']) await happen(name)
  await expect
    .poll(() => namesOf(posts))
    .toEqual([...['retried', 'retried', 'given up', 'given up', 'given up', 'next']])
  await expect.poll(() => listen.stdout().trim().split('\n').length).toBe(6)
  const lines = listen
    .stdout()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.map(({ attempt, status }) => [attempt, status])).toEqual([
    [1, 500],
    [2, 204],
    [1, 500],
    [2, 500],
    [3, 500],
    [1, 204],
  ])
  expect(new Set(posts.slice(2, 5).map(({ headers }) => headers['webhook-id'])).size).toBe(1)
})

test('events wait while the program is not running', async () => {
  const { terminal, happen } = await world()
  const reserved = await localProgram(() => 204)
  const { port } = new URL(reserved.url)
  await reserved.close()
  const listen = await startListen(terminal.env, '--forward-to', reserved.url, '--attempts', '1')
  await happen('early')
  await expect.poll(listen.stderr).toContain('Event #1 waits: no program listens at')
  const { posts } = await localProgram(() => 204, 0, Number(port))
  await expect.poll(() => namesOf(posts)).toEqual(['early'])
  expect(listen.stdout()).not.toContain('given up')
})

test('it starts where it stopped, only with the chosen types; --from-now skips', async () => {
  const { terminal, happen } = await world()
  const { posts, url } = await localProgram(() => 204)
  const args = ['--forward-to', url, '--events', 'database.created']
  const first = await startListen(terminal.env, ...args)
  await happen('failed', 'database.failed')
  await happen('one')
  await expect.poll(() => namesOf(posts)).toEqual(['one'])
  // The line is printed before the position is stored.
  await happen('two')
  await expect.poll(() => namesOf(posts)).toEqual(['one', 'two'])
  await first.kill('SIGINT')
  await happen('while it was away')
  const second = await startListen(terminal.env, ...args)
  await expect.poll(() => namesOf(posts).slice(-1)).toEqual(['while it was away'])
  await second.kill('SIGINT')
  await happen('skipped')
  await startListen(terminal.env, ...args, '--from-now')
  await happen('newest')
  await expect.poll(() => namesOf(posts).slice(-1)).toEqual(['newest'])
  expect(namesOf(posts)).not.toContain('skipped')
})

test('events are listed, shown, and printed as they happen', async () => {
  const { terminal, happen } = await world()
  const ids = [await happen('one'), await happen('two', 'database.failed')]
  const listed = await terminal.json<{ id: string; sequence: number }[]>('events', 'list')
  expect(listed.map(({ id, sequence }) => [id, sequence])).toEqual([
    [ids[1], 2],
    [ids[0], 1],
  ])
  expect(await terminal.json('events', 'list', '--events', 'database.failed', '--since', '1h')).toMatchObject([
    { id: ids[1] },
  ])
  expect(await terminal.json('events', 'list', '--after', '1')).toHaveLength(1)
  expect(await terminal.text('events', 'list')).toMatch(
    /^SEQ +TIME \(UTC\) +TYPE +DELIVERIES +ID\n2 .+database\.failed +no webhook +evt_/,
  )
  expect(await terminal.text('events', 'show', ids[0]!)).toMatch(
    /Sequence +1\n[\s\S]*The organization has no webhooks\./,
  )
  expect(await terminal.json('events', 'show', '1')).toMatchObject({ id: ids[0], sequence: 1 })
  expect(await terminal.run('events', 'show', '999')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no event with the sequence number 999'),
  })

  const tail = startCommand(terminal.env, 'events', 'tail', '--after', '1', '--json')
  await happen('three')
  const names = () =>
    tail
      .stdout()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(JSON.parse(line).body).data.name)
  await expect.poll(names).toEqual(['two', 'three'])
})

test('a revoked key ends it with exit code 3 and advice', async () => {
  const { terminal, key, owner, api, orgId } = await world()
  const { url } = await localProgram(() => 204)
  const listen = await startListen(terminal.env, '--forward-to', url)
  onTestFinished(() => listen.kill('SIGKILL').then(() => {}))
  const path = `${api.url}/api/v1/organizations/${orgId}/api-keys/${key.id}`
  await fetch(path, { method: 'DELETE', headers: { authorization: `Bearer ${owner.token}` } })
  expect(await listen.ended).toEqual([3, null])
  expect(listen.stderr()).toContain('npx keyhook login')
})

test.each([
  [['--forward-to', 'localhost:3000'], '--forward-to: "localhost:3000" is not an address'],
  [['--forward-to', 'http://localhost', '--secret-file', '/dev/null'], '--secret-file: /dev/null has no secret'],
  [
    ['--forward-to', 'http://localhost', '--secret-file', '/missing'],
    '--secret-file: /missing cannot be read (ENOENT)',
  ],
  [['--forward-to', 'http://localhost', '--after', 'x'], '--after: "x" is not a sequence number'],
  [['--forward-to', 'http://localhost', '--attempts', '0'], 'a whole number from 1 to 9999'],
])('wrong input %j exits with 2', async (args, text) => {
  const { terminal } = await ownersTerminal()
  const ended = await terminal.run('listen', ...args)
  expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining(text)])
})
