import type { ServerResponse } from 'node:http'
import { createClient, EventsExpiredError } from '@keyhook/client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createEventParser } from '../src/server-sent-events.ts'
import { broken, json, problem, type Scripted, scriptedServer } from './support/scripted-server.ts'

const clientOf = ({ url }: Scripted) => createClient({ url, token: 'kh_test', organization: 'org_1' })
const record = (sequence: number) => ({ sequence, id: `evt_${sequence}`, type: 'invoice.paid' })
const block = (sequence: number) =>
  `id: ${sequence}\nevent: invoice.paid\ndata: ${JSON.stringify(record(sequence))}\n\n`

const stream =
  (text: string, { end = true } = {}) =>
  (_: unknown, response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (end) response.end(text)
    else response.write(text)
  }

async function take(count: number, events: AsyncIterable<{ sequence: number }>): Promise<number[]> {
  const sequences: number[] = []
  for await (const event of events) {
    sequences.push(event.sequence)
    if (sequences.length === count) break
  }
  return sequences
}

test('a stream that ends or breaks is resumed after the last event', async () => {
  const server = await scriptedServer(
    stream(`: hello\n\n${block(7)}${block(8)}id: 9\ndata: {"half`),
    broken,
    problem(503, 'service.unavailable'),
    stream(block(9), { end: false }),
  )
  const lost: unknown[] = []
  const events = clientOf(server).events.stream({ after: 6, onReconnect: (error) => lost.push(error) })
  expect(await take(3, events)).toEqual([7, 8, 9])
  expect(server.requests.map(({ headers }) => headers['last-event-id'])).toEqual(['6', '8', '8', '8'])
  expect(lost).toMatchObject([null, { code: 'client.network' }, { status: 503 }])
})

test('a block without data sets the position, so that a break before the first event loses none', async () => {
  const server = await scriptedServer(stream('id: 41\n\n'), stream(block(42), { end: false }))
  expect(await take(1, clientOf(server).events.stream())).toEqual([42])
  expect(server.requests.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '41'])
})

test('a connection that is silent for 45 seconds is replaced; a caller who takes longer is not', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const server = await scriptedServer(stream(block(1), { end: false }), stream(block(2), { end: false }))
  const lost: unknown[] = []
  const events = clientOf(server).events.stream({ after: 0, onReconnect: (error) => lost.push(error) })
  const iterator = events[Symbol.asyncIterator]()
  await iterator.next()
  await vi.advanceTimersByTimeAsync(100_000)
  expect(lost).toEqual([])
  const second = iterator.next()
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1))
  await vi.advanceTimersByTimeAsync(45_000)
  await vi.waitFor(() => expect(lost).toMatchObject([{ code: 'client.timeout' }]))
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await second).toMatchObject({ value: { sequence: 2 } })
  await iterator.return?.()
})

test('leaving the loop closes the connection', async () => {
  let closed!: () => void
  const isClosed = new Promise<void>((resolve) => {
    closed = resolve
  })
  const server = await scriptedServer((request, response) => {
    request.socket.on('close', closed)
    stream(block(1), { end: false })(request, response)
  })
  expect(await take(1, clientOf(server).events.stream({ after: 0 }))).toEqual([1])
  await isClosed
})

test('an aborted signal ends the stream', async () => {
  const controller = new AbortController()
  const server = await scriptedServer(stream(block(1), { end: false }))
  const events = clientOf(server).events.stream({ signal: controller.signal })
  const reading = (async () => {
    for await (const _ of events) controller.abort()
  })()
  await expect(reading).rejects.toMatchObject({ code: 'client.aborted' })
})

test('an error that stays ends the stream: a revoked key, or a position that is no longer kept', async () => {
  const revoked = await scriptedServer(problem(401, 'auth.invalid_token'))
  await expect(take(1, clientOf(revoked).events.stream())).rejects.toMatchObject({ code: 'auth.invalid_token' })
  expect(revoked.requests).toHaveLength(1)

  const expired = await scriptedServer(problem(410, 'events.expired', {}, { oldest_sequence: 12 }))
  const error = await take(1, clientOf(expired).events.stream({ after: 3 })).catch((error) => error)
  expect(error).toBeInstanceOf(EventsExpiredError)
  expect(error).toMatchObject({ code: 'events.expired', status: 410, oldestSequence: 12 })
})

test('an answer that is no event stream is refused', async () => {
  const server = await scriptedServer(json([]))
  const error = await take(1, clientOf(server).events.stream()).catch((error) => error)
  expect(error).toMatchObject({ code: 'client.unexpected_response' })
})

test('missed events are read oldest first', async () => {
  const server = await scriptedServer(
    json([record(4), record(5)], { link: '</x?cursor=5>; rel="next"' }),
    json([record(6)]),
  )
  const missed = clientOf(server).events.reconcile({ after: 3, eventTypes: ['invoice.paid', 'backup.failed'] })
  expect(await take(9, missed)).toEqual([4, 5, 6])
  const query = 'after=3&order=asc&event_types=invoice.paid%2Cbackup.failed&limit=100'
  expect(server.requests.map(({ url }) => url?.split('?')[1])).toEqual([query, `${query}&cursor=5`])
})

test('an event stream is read the same in pieces of any size, with any line ends', () => {
  const text =
    ': comment\n\nid: 1\nevent: x\ndata: first\ndata:second\n\nretry: 5\n\ndata\n\nid: 2\r\ndata: ä€😀\r\n\r\nid:3\rdata: r\r\rdata: cut'
  const whole = createEventParser()(text)
  expect(whole).toEqual([
    { id: '1', data: 'first\nsecond' },
    { id: '1', data: null },
    { id: '1', data: '' },
    { id: '2', data: 'ä€😀' },
    { id: '3', data: 'r' },
  ])
  for (const size of [1, 2, 3, 7]) {
    const parse = createEventParser()
    const pieces = text.match(new RegExp(`[\\s\\S]{1,${size}}`, 'g'))!
    expect(pieces.flatMap((piece) => parse(piece))).toEqual(whole)
  }
})
