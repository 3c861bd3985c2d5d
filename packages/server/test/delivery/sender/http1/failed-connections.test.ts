import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Resolve } from '../../../../src/delivery/sender/http1/client.ts'
import { type CertificateName, receiverFor } from '../../support/receiver.ts'
import { attempt } from '../../support/sender.ts'

test.each<[CertificateName]>([['expired'], ['stranger'], ['selfsigned']])(
  'a certificate that is %s is reported as invalid',
  async (name) => {
    const receiver = await receiverFor(undefined, { name })
    expect((await attempt(receiver.url)).error?.code).toBe('tls_certificate_invalid')
    expect(receiver.received).toEqual([])
  },
)

describe('a connection that cannot be opened', () => {
  let silent: ReturnType<typeof createServer>
  let port: number
  beforeAll(async () => {
    silent = createServer(() => {})
    await new Promise<void>((done) => silent.listen(0, '127.0.0.1', done))
    port = (silent.address() as AddressInfo).port
  })
  afterAll(() => void silent.close())

  test('without a listener is refused', async () => {
    const closed = createServer()
    await new Promise<void>((done) => closed.listen(0, '127.0.0.1', done))
    const free = (closed.address() as AddressInfo).port
    await new Promise((done) => closed.close(done))
    expect((await attempt(`https://127.0.0.1:${free}/`)).error?.code).toBe('connect_refused')
  })
  test('without an answer to TLS is a TLS timeout', async () => {
    expect((await attempt(`https://127.0.0.1:${port}/`)).error?.code).toBe('tls_timeout')
  })
  test('to a port without TLS is a TLS failure', async () => {
    const plain = createServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n').on('error', () => {}))
    await new Promise<void>((done) => plain.listen(0, '127.0.0.1', done))
    onTestFinished(() => void plain.close())
    const url = `https://127.0.0.1:${(plain.address() as AddressInfo).port}/`
    const { error } = await attempt(url)
    expect(error?.code).toBe('tls_failed')
    // Without OpenSSL's source file and line.
    expect(error?.detail).toMatch(/^ERR_SSL_\w+: [\w :]+$/)
  })
  // A socket whose other end has closed has no address: that must not count as a forbidden one.
  test.each([
    ['resets', (socket: Socket) => void socket.resetAndDestroy()],
    ['closes', (socket: Socket) => void socket.destroy()],
  ])('whose receiver %s at once is a TLS or connection failure', async (_what, end) => {
    const ending = createServer(end)
    await new Promise<void>((done) => ending.listen(0, '127.0.0.1', done))
    onTestFinished(() => void ending.close())
    const url = `https://127.0.0.1:${(ending.address() as AddressInfo).port}/`
    for (let i = 0; i < 20; i++) {
      expect((await attempt(url)).error?.code).toMatch(/^(tls|connect)_failed$/)
    }
  })
  test('to a name that does not exist is a DNS failure', async () => {
    const resolve: Resolve = () => ({
      addresses: Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })),
      cancel() {},
    })
    expect((await attempt('https://missing.invalid/', { resolve })).error?.code).toBe('dns_failed')
  })
  test('whose name server never answers is a DNS timeout', async () => {
    const resolve: Resolve = () => ({ addresses: new Promise(() => {}), cancel() {} })
    expect((await attempt('https://slow.invalid/', { resolve })).error?.code).toBe('dns_timeout')
  })
})
