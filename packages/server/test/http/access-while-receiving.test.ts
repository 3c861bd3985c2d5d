import { expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { openRaw, sendRaw } from '../kit/raw-http.ts'

/*
 * Access is checked again when a body arrives late, and for every pipelined request.
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

test('a key that is revoked while a request body arrives creates nothing', async () => {
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
  // Both have passed the first access check by now: later requests on other connections have.
  for (let i = 0; i < 20; i++) expect((await call(api.url + at('webhooks'), { token: api_key })).status).toBe(200)
  expect((await revoke(id)).status).toBe(204)
  for (const { socket, received, body } of requests) {
    socket.write(body.slice(1))
    await expect.poll(received).toMatch(/^HTTP\/1\.1 401 /)
    socket.destroy()
  }
  expect((await call<[]>(api.url + at('webhooks'), { token: api.owner.token })).body).toEqual([])
})

test('pipelined requests run one after the other: a key that the first revokes is refused in the next', async () => {
  const { id, api_key } = await makeKey()
  const asks = `Authorization: Bearer ${api_key}\r\n`
  const body = '{"name":"pipelined"}'
  const { socket, received } = openRaw(api.url)
  socket.write(
    `DELETE ${at('api-keys')}/${id} HTTP/1.1\r\nHost: x\r\n${asks}\r\n` +
      `POST ${at('api-keys')} HTTP/1.1\r\n${json}${asks}Content-Length: ${body.length}\r\n\r\n${body}`.repeat(5),
  )
  const statuses = () => received().match(/HTTP\/1\.1 \d+/g)
  await expect.poll(statuses).toEqual(['HTTP/1.1 204', ...Array(5).fill('HTTP/1.1 401')])
  socket.destroy()
})

test('a client that pipelines hundreds of requests is disconnected', async () => {
  const { socket, received, ended } = openRaw(api.url)
  socket.write(
    `GET ${at('webhooks')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.owner.token}\r\n\r\n`.repeat(2_000),
  )
  await ended
  expect(received().match(/HTTP\/1\.1 200/g)?.length ?? 0).toBeLessThan(2_000)
})

test.each([
  ['without a token', '', 'Content-Length: 15\r\n', 401],
  ['too large', 'owner', 'Content-Length: 1500000\r\n', 413],
])('100 Continue is not sent for a body that is %s', async (_what, who, length, status) => {
  const token = who === '' ? '' : `Authorization: Bearer ${api.owner.token}\r\n`
  const reply = await sendRaw(
    api.url,
    `POST ${at('api-keys')} HTTP/1.1\r\n${json}${token}Expect: 100-continue\r\n${length}\r\n`,
  )
  expect(reply.text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
})
