import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { certificate } from '../test/delivery/support/receiver.ts'
import { now } from './now.ts'

/*
 * Receivers of deliveries, in their own process. `/hang/…` never answers; everything else answers 200 at once. Counts,
 * and with `record` stores when each event arrived.
 */
let count = 0
let connections = 0
let recording = false
let arrivals: [string, number][] = []

const server = createServer(certificate('receiver'), (request, response) => {
  const at = recording ? now() : 0
  request.on('data', () => {})
  request.on('end', () => {
    if (request.url!.startsWith('/hang/')) return
    count += 1
    if (recording) arrivals.push([String(request.headers['webhook-id']), at])
    response.writeHead(200, { 'content-length': 2 }).end('ok')
  })
})
server.on('secureConnection', () => {
  connections += 1
})
server.keepAliveTimeout = 60_000

process.on('message', (message: { ask: 'count' | 'record' | 'arrivals' }) => {
  if (message.ask === 'count') process.send!({ count, connections })
  if (message.ask === 'record') {
    recording = true
    arrivals = []
    process.send!({})
  }
  if (message.ask === 'arrivals') {
    recording = false
    process.send!({ arrivals })
  }
})
server.listen(0, '127.0.0.1', 4_096, () => process.send!({ port: (server.address() as AddressInfo).port }))

process.on('disconnect', () => process.exit())
