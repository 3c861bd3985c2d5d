import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createAuthority, issueCertificate } from '../../src/databases/certificates.ts'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { newId } from '../../src/lib/ids.ts'
import { until } from '../kit/until.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder } from './support/platform.ts'

const silentCount = 400
/** PostgreSQL itself ends silent clients too late for every test here. */
const settings = { authentication_timeout: '10min' }

let folder: string
let instances: LocalInstances
let port: number
beforeAll(async () => {
  folder = await scratchFolder()
  instances = openInstances((await nodeOf(folder)).dataDir, { settings })
  const authority = await createAuthority(new Date())
  const certificate = await issueCertificate(authority, ['127.0.0.1'], new Date())
  instances.useCertificates(async () => certificate)
  const passwordVerifier = await scramVerifier('secret')
  port = (await instances.provision(newId('db'), { passwordVerifier, signal: new AbortController().signal })).port
})
afterAll(async () => {
  for (const id of await instances.existing()) await instances.remove(id)
  await instances.close()
  await rm(folder, { recursive: true, force: true })
})

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
const startupPacket = (() => {
  const parameters = Buffer.from('user\0app\0database\0app\0\0')
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + parameters.length, 0)
  head.writeInt32BE(0x0003_0000, 4)
  return Buffer.concat([head, parameters])
})()

/** `SASLInitialResponse` of a client that then falls silent. */
const saslResponse = (() => {
  const first = Buffer.from('n,,n=,r=0123456789abcdefghijklmn')
  const name = Buffer.from('SCRAM-SHA-256\0')
  const packet = Buffer.alloc(5)
  packet.write('p')
  packet.writeInt32BE(4 + name.length + 4 + first.length, 1)
  const length = Buffer.alloc(4)
  length.writeInt32BE(first.length)
  return Buffer.concat([packet, name, length, first])
})()

/** How far a client goes before it falls silent. Each resolves when it has, or when the server has closed the connection. */
const stages: Record<string, (socket: Socket) => Promise<unknown>> = {
  'before the startup packet': async () => {},
  'after the startup packet': async (socket) => {
    socket.write(startupPacket)
    await answer(socket)
  },
  'in the TLS handshake': async (socket) => {
    socket.write(sslRequest)
    await answer(socket)
  },
  'after the TLS handshake': async (socket) => {
    socket.write(sslRequest)
    await answer(socket)
    const secure = connectTls({ socket, rejectUnauthorized: false })
    secure.on('error', () => {})
    await Promise.race([once(secure, 'secureConnect'), once(socket, 'close')]).catch(() => {})
  },
  'after the challenge of the password': async (socket) => {
    socket.write(startupPacket)
    await answer(socket)
    socket.write(saslResponse)
    await answer(socket)
  },
}

const answer = (socket: Socket) => Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => {})

/** `silent` and `closed` always settle: the server may close the connection at any moment. */
function silentClient(stage: (socket: Socket) => Promise<unknown>) {
  const socket = connect({ host: '127.0.0.1', port, localAddress: '127.0.0.1' })
  socket.on('error', () => {})
  const closed = new Promise<void>((done) => socket.once('close', () => done()))
  const connected = new Promise<void>((done) => socket.once('connect', () => done()))
  return { socket, closed, silent: Promise.race([connected.then(() => stage(socket)), closed]) }
}

/** Tries again while it is refused, as applications do. */
async function logIn(localAddress: string): Promise<Client> {
  return until(
    async () => {
      const socket = connect({ host: '127.0.0.1', port, localAddress })
      const client = new Client({
        user: 'app',
        database: 'app',
        password: 'secret',
        stream: () => socket,
        connectionTimeoutMillis: 5_000,
      })
      client.on('error', () => {})
      return client.connect().then(
        () => client,
        () => null,
      )
    },
    (client) => client !== null,
  ) as Promise<Client>
}

test.each(Object.keys(stages))(
  `${silentCount} clients that fall silent %s do not lock a customer out`,
  async (name) => {
    const clients = Array.from({ length: silentCount }, () => silentClient(stages[name]!))
    onTestFinished(() => {
      for (const { socket } of clients) socket.destroy()
    })
    await Promise.all(clients.map(({ silent }) => silent))
    for (const source of ['127.0.0.2', '127.0.0.1']) {
      const client = await logIn(source)
      expect((await client.query('select inet_client_addr()::text as source')).rows[0].source).toBe(`${source}/32`)
      await client.end()
    }
  },
  60_000,
)

test('clients that come back whenever they are ended do not lock a customer out either', async () => {
  let isOver = false
  const sockets = new Set<Socket>()
  const comeBack = async () => {
    while (!isOver) {
      const { socket, closed } = silentClient(stages['after the startup packet']!)
      sockets.add(socket)
      await closed
      sockets.delete(socket)
    }
  }
  const attackers = Array.from({ length: 200 }, comeBack)
  onTestFinished(async () => {
    isOver = true
    for (const socket of sockets) socket.destroy()
    await Promise.all(attackers)
  })
  const client = await logIn('127.0.0.2')
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await client.end()
}, 60_000)

test('a customer may open all its connections at once, and no more than its limit', async () => {
  const open = () => {
    const client = new Client({ host: '127.0.0.1', port, user: 'app', database: 'app', password: 'secret' })
    client.on('error', () => {})
    return client.connect().then(
      () => client,
      (error: Error) => error.message,
    )
  }
  const opened = await Promise.all(Array.from({ length: 55 }, open))
  const clients = opened.filter((one) => one instanceof Client)
  onTestFinished(async () => void (await Promise.all(clients.map((client) => client.end()))))
  expect(opened.filter((one) => typeof one === 'string')).toEqual([])
  expect(await open()).toBe('too many connections for role "app"')
  await expect(clients[0]!.query('alter role app connection limit -1')).rejects.toThrow('permission denied')
})
