import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

type ReceivedSpan = {
  service: string
  traceId: string
  spanId: string
  /** Empty for a root. */
  parentId: string
  name: string
  kind: number
  attributes: Record<string, string | number | boolean>
  events: string[]
}

/** A real OTLP/HTTP receiver: takes what an exporter posts to /v1/traces, and decodes its protobuf. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = []
  const bodies: Buffer[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const isTraces = request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf'
      if (isTraces) {
        const body = Buffer.concat(chunks)
        bodies.push(body)
        spans.push(...spansOf(body))
      }
      response.writeHead(isTraces ? 200 : 404, { 'content-type': 'application/x-protobuf' }).end()
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(
    () =>
      new Promise<void>((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, bodies }
}

/** The fields of a protobuf message: numbers, or bytes. */
type Fields = Map<number, (bigint | Buffer)[]>

function fieldsOf(message: Buffer): Fields {
  const fields: Fields = new Map()
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  const take = (length: number): Buffer => {
    at += length
    return message.subarray(at - length, at)
  }
  while (at < message.length) {
    const tag = Number(varint())
    const type = tag & 7
    if (![0, 1, 2, 5].includes(type)) throw new Error(`wire type ${type}`)
    const value = type === 0 ? varint() : take(type === 1 ? 8 : type === 5 ? 4 : Number(varint()))
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value])
  }
  return fields
}

const messages = (fields: Fields, field: number): Fields[] =>
  (fields.get(field) ?? []).map((one) => fieldsOf(one as Buffer))
const text = (fields: Fields, field: number, encoding: BufferEncoding = 'utf8'): string =>
  ((fields.get(field)?.[0] ?? Buffer.alloc(0)) as Buffer).toString(encoding)

/** KeyValue: 1 key, 2 AnyValue with 1 string, 2 bool, 3 int, 4 double. */
function attributesOf(pairs: Fields[]): ReceivedSpan['attributes'] {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [value] = messages(pair, 2)
      const number = value!.get(3) ?? value!.get(4)
      const isTrue = value!.get(2)
      if (isTrue !== undefined) return [text(pair, 1), isTrue[0] === 1n]
      if (number === undefined) return [text(pair, 1), text(value!, 1)]
      return [text(pair, 1), typeof number[0] === 'bigint' ? Number(number[0]) : number[0]!.readDoubleLE()]
    }),
  )
}

/** ExportTraceServiceRequest, by the numbers of opentelemetry-proto. */
const spansOf = (body: Buffer): ReceivedSpan[] =>
  messages(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const resource = attributesOf(messages(resourceSpans, 1).flatMap((one) => messages(one, 1)))
    return messages(resourceSpans, 2).flatMap((scope) =>
      messages(scope, 2).map((span) => ({
        service: String(resource['service.name']),
        traceId: text(span, 1, 'hex'),
        spanId: text(span, 2, 'hex'),
        parentId: text(span, 4, 'hex'),
        name: text(span, 5),
        kind: Number(span.get(6)?.[0] ?? 0),
        attributes: attributesOf(messages(span, 9)),
        events: messages(span, 11).map((event) => text(event, 2)),
      })),
    )
  })
