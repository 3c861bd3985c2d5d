import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Resolve } from '../../src/webhooks/sending/resolve.ts'
import { type CertificateName, receiverFor } from './support/receiver.ts'
import { attempt, connectWith } from './support/sender.ts'

/*
 * Attempts that get no further than connecting: the record names what failed, be it the name, the connection or TLS.
 */

test.each<[CertificateName]>([['expired'], ['stranger'], ['selfsigned']])('a certificate that is %s', async (name) => {
  const receiver = await receiverFor(undefined, { name })
  expect((await attempt(receiver.url)).error?.code).toBe('tls_certificate_invalid')
  expect(receiver.received).toEqual([])
})

describe('connections that never come about', () => {
  let silent: ReturnType<typeof createServer>
  let port: number
  beforeAll(async () => {
    silent = createServer(() => {})
    await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done))
    port = (silent.address() as AddressInfo).port
  })
  afterAll(() => void silent.close())

  test('nobody listens', async () => {
    const closed = createServer()
    await new Promise<void>((done) => closed.listen(0, '127.0.0.1', done))
    const free = (closed.address() as AddressInfo).port
    await new Promise((done) => closed.close(done))
    expect((await attempt(`https://127.0.0.1:${free}/`)).error?.code).toBe('connect_refused')
  })
  test('TLS never answers', async () => {
    expect((await attempt(`https://127.0.0.1:${port}/`)).error?.code).toBe('tls_timeout')
  })
  test('it does not speak TLS', async () => {
    const plain = createServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n').on('error', () => {}))
    await new Promise<void>((done) => plain.listen(0, '127.0.0.1', done))
    onTestFinished(() => void plain.close())
    const url = `https://127.0.0.1:${(plain.address() as AddressInfo).port}/`
    const { error } = await attempt(url)
    expect(error?.code).toBe('tls_failed')
    // Not the line of OpenSSL's source that noticed.
    expect(error?.detail).toMatch(/^ERR_SSL_\w+: [\w :]+$/)
  })
  // Seen to fail: a socket whose other end has gone has no address, and that was taken for a forbidden one.
  test.each([
    ['resets', (socket: Socket) => void socket.resetAndDestroy()],
    ['closes', (socket: Socket) => void socket.destroy()],
  ])('whoever listens %s at once', async (_what, leave) => {
    const leaving = createServer(leave)
    await new Promise<void>((done) => leaving.listen(0, '127.0.0.1', done))
    onTestFinished(() => void leaving.close())
    const url = `https://127.0.0.1:${(leaving.address() as AddressInfo).port}/`
    const connect = connectWith()
    for (let i = 0; i < 20; i++) {
      expect((await attempt(url, connect)).error?.code).toMatch(/^(tls|connect)_failed$/)
    }
  })
  test('the name is nobody’s', async () => {
    const resolve: Resolve = () => ({
      addresses: Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })),
      cancel() {},
    })
    expect((await attempt('https://nobody.invalid/', connectWith({ resolve }))).error?.code).toBe('dns_failed')
  })
  test('the name server never answers', async () => {
    const resolve: Resolve = () => ({ addresses: new Promise(() => {}), cancel() {} })
    expect((await attempt('https://slow.invalid/', connectWith({ resolve }))).error?.code).toBe('dns_timeout')
  })
})
