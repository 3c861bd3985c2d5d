import { createSocket } from 'node:dgram'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createResolve } from '../../../src/delivery/sender/addresses.ts'

test('a name server that never answers for IPv6 does not delay the IPv4 addresses', async () => {
  const server = createSocket('udp4')
  onTestFinished(() => void server.close())
  server.on('message', (query, { port, address }) => {
    const nameEnd = query.indexOf(0, 12)
    const isForV4 = query.readUInt16BE(nameEnd + 1) === 1
    if (!isForV4) return
    const header = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7])
    server.send(Buffer.concat([header, query.subarray(12, nameEnd + 5), answer]), port, address)
  })
  await new Promise<void>((done) => server.bind(0, '127.0.0.1', done))
  const { addresses, cancel } = createResolve({ servers: [`127.0.0.1:${server.address().port}`] })('hook.example.test')
  // The resolver itself would wait 5 s, which is as long as a connection may take.
  const late = new Promise<string>((done) => setTimeout(() => done('too late'), 3_500).unref())
  expect(await Promise.race([addresses, late])).toEqual([{ address: '192.0.2.7', family: 4 }])
  cancel()
})

test.each(['localhost', 'localhost.', 'hook.localhost.'])('%s is resolved without a query', async (name) => {
  expect(await createResolve({ hostsFile: '/nowhere' })(name).addresses).toContainEqual({
    address: '127.0.0.1',
    family: 4,
  })
})

test.each(['hook.example.test', 'HOOK.example.test.'])('%s is found in the hosts file', async (name) => {
  const hostsFile = join(await mkdtemp(join(tmpdir(), 'keyhook-hosts-')), 'hosts')
  onTestFinished(() => rm(dirname(hostsFile), { recursive: true }))
  await writeFile(hostsFile, '192.0.2.7 other.example.test Hook.example.test # ours\n')
  expect(await createResolve({ hostsFile })(name).addresses).toEqual([{ address: '192.0.2.7', family: 4 }])
})
