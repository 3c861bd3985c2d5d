import { connect } from 'node:net'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { createBodyRoom } from '../../src/http/body-room.ts'
import { fileWith, githubKeyPair, report, signatureOf } from '../keys/support/leak-reports.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

/*
 * Large bodies wait for each other before they are read, so that memory is bounded however many clients publish.
 */

const github = githubKeyPair()
const api = ownedApi({ KEYHOOK_LEAK_REPORT_KEYS_FILE: fileWith(github.published, afterAll) })

/** A client that never sends its body. Resolves when the server has asked for it. */
async function claimRoom(path: string, headers: Record<string, string>, bytes: number) {
  const { hostname, port } = new URL(api.url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  const lines = Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\n${lines}Content-Type: application/json\r\nContent-Length: ${bytes}\r\nExpect: 100-continue\r\n\r\n`,
  )
  const [line] = await new Promise<string[]>((resolve) =>
    socket.once('data', (chunk) => resolve(String(chunk).split('\r\n'))),
  )
  expect(line).toBe('HTTP/1.1 100 Continue')
  return socket
}

async function publish(events: number) {
  const event = { organization_id: api.orgId, type: 'invoice.paid', data: { text: 'x'.repeat(20_000) } }
  const token = await api.operatorToken()
  return call(`${api.url}/operator/v1/events`, { method: 'POST', token, body: Array(events).fill(event) })
}

test('a large body waits while others take the room, and a small one does not', async () => {
  const token = await api.operatorToken()
  const claimed = await Promise.all(
    [1, 2, 3, 4].map(() => claimRoom('/operator/v1/events', { authorization: `Bearer ${token}` }, 32 * 1_024 * 1_024)),
  )
  let answered = 0
  const large = publish(10).finally(() => {
    answered += 1
  })
  for (let i = 0; i < 20; i++) expect((await publish(1)).status).toBe(202)
  expect(answered).toBe(0)
  claimed[0]!.destroy()
  expect((await large).status).toBe(202)
})

test('large leak reports wait for each other, small ones and publishers do not wait for them', async () => {
  // Anybody can name a key of GitHub; whether a body is signed is known when it has arrived.
  const headers = {
    'github-public-key-identifier': github.id,
    'github-public-key-signature': signatureOf(github.privateKey, ''),
  }
  const path = '/operator/v1/leak-reports/github'
  const claimed = await Promise.all(Array.from({ length: 8 }, () => claimRoom(path, headers, 1_024 * 1_024)))
  let answered = 0
  const large = report(api.url, github, [{ token: 'x'.repeat(100_000) }]).finally(() => {
    answered += 1
  })
  for (let i = 0; i < 20; i++) expect((await report(api.url, github, [{ token: 'x' }])).status).toBe(200)
  expect((await publish(10)).status).toBe(202)
  expect(answered).toBe(0)
  claimed[0]!.destroy()
  expect((await large).status).toBe(200)
})

const full = { bytesMax: 100, waitMsMax: 50 }

test('what finds no room for long is refused, and those behind it go on', async () => {
  const room = createBodyRoom(full)
  const leave = room.enter(60, () => {})
  const refused = new Promise((resolve) => void room.enter(50, resolve))
  const next = new Promise((resolve) => void room.enter(40, resolve))
  expect(await refused).toMatchObject({ code: 'service.unavailable', headers: { 'retry-after': '2' } })
  expect(await next).toBeUndefined()
  leave()
})

test('room is given back once, also by a client that left while it waited', async () => {
  const room = createBodyRoom({ ...full, waitMsMax: 60_000 })
  const entered: string[] = []
  const leaveA = room.enter(500, () => void entered.push('larger than the room'))
  const leaveB = room.enter(100, () => void entered.push('left'))
  room.enter(60, () => void entered.push('c'))
  const leaveD = room.enter(60, () => void entered.push('d'))
  leaveB()
  expect(entered).toEqual(['larger than the room'])
  leaveA()
  leaveA()
  expect(entered).toEqual(['larger than the room', 'c'])
  leaveD()
})
