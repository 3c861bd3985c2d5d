import { readSequence, type VerifyOptions, verifyWebhook, WebhookVerificationError } from '@keyhook/client'
import { expect, test } from 'vitest'
import { createSigner } from '../../server/src/delivery/sender/senders.ts'
import { bodyOf, vectorNamed, vectors } from './support/vectors.ts'

const plain = vectorNamed('plain')
const sentAt = new Date(Number(plain.headers['webhook-timestamp']) * 1_000)
const [secret] = plain.secrets as [string]
const delivery = { body: plain.body, headers: plain.headers, secret, now: sentAt }
const later = (seconds: number) => new Date(sentAt.getTime() + seconds * 1_000)

/** Why a delivery is refused; null if it is not, or if only its content is no event. */
async function failureOf(options: VerifyOptions): Promise<WebhookVerificationError | null> {
  try {
    await verifyWebhook(options)
    return null
  } catch (error) {
    expect(error).toBeInstanceOf(WebhookVerificationError)
    return (error as WebhookVerificationError).reason === 'event_malformed' ? null : (error as WebhookVerificationError)
  }
}

test.each(vectors)('test vector: $name', async (vector) => {
  const bytes = new TextEncoder().encode(bodyOf(vector))
  for (const body of [bodyOf(vector), bytes, bytes.buffer, Buffer.from(bytes)]) {
    const options = { body, headers: vector.headers, secret: vector.secrets, now: sentAt }
    const byBody = await failureOf({ ...options, signature: 'body' })
    expect(byBody === null, `${byBody?.message}`).toBe(vector.body_signature_valid)
    const byStandard = await failureOf({ ...options, signature: 'standard' })
    expect(byStandard === null, `${byStandard?.message}`).toBe(vector.standard_signature_valid)
  }
})

test('the test vectors have the signatures that the server makes', () => {
  const valid = vectors.filter((vector) => vector.body_signature_valid && vector.standard_signature_valid)
  expect(valid.length).toBeGreaterThan(8)
  for (const { secrets, headers, ...vector } of valid) {
    const body = Buffer.from(bodyOf({ secrets, headers, ...vector }))
    const signer = createSigner(secrets.at(-1)!)
    expect(headers['X-Service-Signature']).toBe(signer.body(body))
    const standard = signer.standard(headers['webhook-id']!, Number(headers['webhook-timestamp']), body)
    expect(headers['webhook-signature']!.split(' ')).toContain(standard)
  }
})

test('the event of a delivery is returned, and its type tells which data it has', async () => {
  const event = await verifyWebhook(delivery)
  expect(event).toEqual(JSON.parse(plain.body))
  if (event.type !== 'invoice.paid') expect.fail('another type')
  expect(event.data.total_minor satisfies number).toBe(1488)
})

test('headers can be a Headers object, a Node object with any case, and pairs', async () => {
  const upper = Object.fromEntries(Object.entries(plain.headers).map(([name, value]) => [name.toUpperCase(), [value]]))
  for (const headers of [new Headers(plain.headers), upper, Object.entries(plain.headers)]) {
    expect(await failureOf({ ...delivery, headers })).toBeNull()
    expect(await failureOf({ ...delivery, headers, signature: 'body' })).toBeNull()
  }
})

test('a delivery is refused when it is sent again after five minutes', async () => {
  expect(await failureOf({ ...delivery, now: later(300) })).toBeNull()
  expect(await failureOf({ ...delivery, now: later(301) })).toMatchObject({ reason: 'timestamp_too_old' })
  expect(await failureOf({ ...delivery, now: later(-301) })).toMatchObject({ reason: 'timestamp_too_new' })
  expect(await failureOf({ ...delivery, now: later(301), toleranceSeconds: 400 })).toBeNull()
})

test('the published signature alone is enough, unless the one with the time is required', async () => {
  const headers = { 'X-Service-Signature': plain.headers['X-Service-Signature']! }
  expect(await failureOf({ ...delivery, headers })).toBeNull()
  expect(await failureOf({ ...delivery, headers, body: `${plain.body} ` })).toMatchObject({
    reason: 'signature_mismatch',
  })
  const failure = await failureOf({ ...delivery, headers, signature: 'standard' })
  expect(failure).toMatchObject({ reason: 'header_missing' })
  expect(failure!.message).toContain('signature: "body"')
})

test('removing some of the headers with the time does not make an old delivery valid', async () => {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature, ...headers } = plain.headers
  const downgraded: Record<string, string>[] = [
    { ...headers, 'webhook-id': id! },
    { ...headers, 'webhook-id': id!, 'webhook-timestamp': time! },
    { ...headers, 'webhook-id': id!, 'webhook-signature': signature! },
    { ...plain.headers, 'webhook-signature': '' },
  ]
  for (const headers of downgraded) {
    expect(await failureOf({ ...delivery, headers })).toMatchObject({ reason: 'header_missing' })
  }
})

test('a new time does not fit an old signature', async () => {
  const now = later(3_600)
  const headers = { ...plain.headers, 'webhook-timestamp': String(now.getTime() / 1_000) }
  expect(await failureOf({ ...delivery, headers, now })).toMatchObject({ reason: 'signature_mismatch' })
})

test.each([Number.NaN, -1, '5m' as unknown as number])(
  'a tolerance of %s is a mistake, not a switch',
  async (tolerance) => {
    await expect(verifyWebhook({ ...delivery, toleranceSeconds: tolerance })).rejects.toThrow(TypeError)
  },
)

test('the name of the service can be another', async () => {
  const headers = { 'x-acme-cloud-signature': plain.headers['X-Service-Signature']! }
  const options: VerifyOptions = { ...delivery, headers, signature: 'body' }
  expect(await failureOf({ ...options, service: 'Acme-Cloud' })).toBeNull()
  expect((await failureOf(options))!.message).toContain('"service"')
})

test.each<[string, Partial<VerifyOptions>, string, string]>([
  ['a parsed body', { body: JSON.parse(plain.body) }, 'body_parsed', 'JSON parser'],
  ['a secret that is not set', { secret: undefined as unknown as string }, 'secret_missing', 'environment variable'],
  ['an empty secret', { secret: '' }, 'secret_missing', 'environment variable'],
  ['no secrets', { secret: [] }, 'secret_missing', 'environment variable'],
  ['a secret that is no base64', { secret: 'whsec_not base64!' }, 'secret_malformed', 'base64'],
  ['a body with spaces', { body: JSON.stringify(JSON.parse(plain.body), null, 2) }, 'signature_mismatch', 'parsed'],
  ['another secret', { secret: 'c2VjcmV0' }, 'signature_mismatch', 'whsec_'],
  [
    'a time that is none',
    { headers: { ...plain.headers, 'webhook-timestamp': '1767225600x' } },
    'header_malformed',
    'webhook-timestamp',
  ],
  [
    'a header sent twice',
    {
      headers: { 'x-service-signature': [plain.headers['X-Service-Signature']!, 'sha256=x'] },
      signature: 'body',
    },
    'header_malformed',
    'once',
  ],
])('%s is explained', async (_, options, reason, part) => {
  const failure = await failureOf({ ...delivery, ...options })
  expect(failure).toMatchObject({ name: 'WebhookVerificationError', reason })
  expect(failure!.message).toContain(part)
})

test('a signed body that is no event is refused', async () => {
  for (const body of ['', 'null', '[]', '{"id":1}', '{"id":"a","type":"b","data":null}']) {
    const bytes = Buffer.from(body)
    const headers = { 'x-service-signature': createSigner(secret).body(bytes) }
    const options: VerifyOptions = { body, headers, secret, signature: 'body' }
    await expect(verifyWebhook(options)).rejects.toMatchObject({ reason: 'event_malformed' })
  }
})

test('the sequence numbers of a delivery can be read', () => {
  expect(readSequence({ 'x-service-sequence': '7', 'x-service-previous-sequence': '5' })).toEqual({
    sequence: 7,
    previous: 5,
  })
  expect(readSequence(new Headers({ 'X-Acme-Sequence': '1' }), 'Acme')).toEqual({ sequence: 1, previous: null })
  expect(readSequence({})).toBeNull()
})
