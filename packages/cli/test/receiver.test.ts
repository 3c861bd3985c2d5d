import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { localCertificate } from '../src/receiver.ts'

async function scratch(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-cli-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const now = new Date('2026-11-18T12:00:00.000Z')

test('the certificate is for this machine alone, signs itself, and is valid for ten years', async () => {
  const { certificate } = await localCertificate(await scratch(), now)
  const read = new X509Certificate(certificate)
  expect(read.subject).toBe('CN=Keyhook local receiver')
  expect(read.subjectAltName).toBe('DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1')
  expect([read.ca, read.checkIssued(read), read.verify(read.publicKey)]).toEqual([true, true, true])
  expect(read.validFrom).toBe('Nov 18 11:59:00 2026 GMT')
  expect(read.validTo).toBe('Nov 15 12:00:00 2036 GMT')
  expect(read.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' })
})

test('a year from 2050 on is written in four digits', async () => {
  const { certificate } = await localCertificate(await scratch(), new Date('2045-01-01T00:00:00.000Z'))
  expect(new X509Certificate(certificate).validTo).toBe('Dec 30 00:00:00 2054 GMT')
})

test('a client that trusts it connects by name and by address', async () => {
  const { certificate, key } = await localCertificate(await scratch(), new Date())
  const server = createServer({ cert: certificate, key }, (socket) => socket.end()).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  for (const servername of ['localhost', '']) {
    const socket = connect({ host: '127.0.0.1', port, ca: certificate, ...(servername && { servername }) })
    await once(socket, 'secureConnect')
    expect(socket.authorized).toBe(true)
    socket.destroy()
  }
})

test('the certificate is kept, and its key is readable by this user only', async () => {
  const folder = await scratch()
  const first = await localCertificate(folder, now)
  expect(await localCertificate(folder, new Date())).toEqual(first)
  expect((await stat(join(folder, 'key.pem'))).mode & 0o777).toBe(0o600)
})
