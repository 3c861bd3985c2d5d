import { expect, test } from 'vitest'
import { call } from '../support/client.ts'
import { ownedApi } from '../support/owned-api.ts'
import { openRaw, sendRaw } from '../support/raw-http.ts'

/*
 * Clients that take their time with a body, and those that send ahead.
 */

const api = ownedApi()
const at = (path: string) => `/api/v1/organizations/${api.orgId}/${path}`
const json = 'Host: x\r\nContent-Type: application/json\r\n'

async function makeKey(): Promise<{ id: string; api_key: string }> {
  const made = await call<{ id: string; api_key: string }>(api.url + at('api-keys'), {
    token: api.owner.token,
    body: { name: 'late' },
  })
  return made.body
}

const revoke = async (id: string) =>
  call(`${api.url}${at('api-keys')}/${id}`, { token: api.owner.token, method: 'DELETE' })

test('a key that is revoked while its request is arriving makes nothing any more', async () => {
  const { id, api_key } = await makeKey()
  const bodies = {
    'api-keys': JSON.stringify({ name: 'one more' }),
    webhooks: JSON.stringify({ url: 'https://example.com/', event_types: ['database.created'] }),
  }
  const requests = Object.entries(bodies).map(([path, body]) => {
    const opened = openRaw(api.url)
    opened.socket.write(
      `POST ${at(path)} HTTP/1.1\r\n${json}Authorization: Bearer ${api_key}\r\nContent-Length: ${body.length}\r\n\r\n${body[0]}`,
    )
    return { ...opened, body }
  })
  // Both have passed the gate by now: later requests on other connections have.
  for (let i = 0; i < 20; i++) expect((await call(api.url + at('webhooks'), { token: api_key })).status).toBe(200)
  expect((await revoke(id)).status).toBe(204)
  for (const { socket, received, body } of requests) {
    socket.write(body.slice(1))
    await expect.poll(received).toMatch(/^HTTP\/1\.1 401 /)
    socket.destroy()
  }
  expect((await call<[]>(api.url + at('webhooks'), { token: api.owner.token })).body).toEqual([])
})

test('requests on one connection are seen to one after the other: what the first takes away, the next has not', async () => {
  const { id, api_key } = await makeKey()
  const asks = `Authorization: Bearer ${api_key}\r\n`
  const body = '{"name":"sent ahead"}'
  const { socket, received } = openRaw(api.url)
  socket.write(
    `DELETE ${at('api-keys')}/${id} HTTP/1.1\r\nHost: x\r\n${asks}\r\n` +
      `POST ${at('api-keys')} HTTP/1.1\r\n${json}${asks}Content-Length: ${body.length}\r\n\r\n${body}`.repeat(5),
  )
  const statuses = () => received().match(/HTTP\/1\.1 \d+/g)
  await expect.poll(statuses).toEqual(['HTTP/1.1 204', ...Array(5).fill('HTTP/1.1 401')])
  socket.destroy()
})

test('whoever sends hundreds ahead is hung up on', async () => {
  const { socket, ended } = openRaw(api.url)
  socket.write(
    `GET ${at('webhooks')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.owner.token}\r\n\r\n`.repeat(2_000),
  )
  await ended
})

test.each([
  ['nobody’s', '', 'Content-Length: 15\r\n', 401],
  ['one that is too long', 'owner', 'Content-Length: 1500000\r\n', 413],
])('a body that is %s is not asked for', async (_what, who, length, status) => {
  const token = who === '' ? '' : `Authorization: Bearer ${api.owner.token}\r\n`
  const reply = await sendRaw(
    api.url,
    `POST ${at('api-keys')} HTTP/1.1\r\n${json}${token}Expect: 100-continue\r\n${length}\r\n`,
  )
  expect(reply.text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
})
