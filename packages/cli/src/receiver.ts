import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { verifyWebhook, WebhookVerificationError } from '@keyhook/client'

/** The largest `data` that KEYHOOK_EVENT_BYTES_MAX allows, and its envelope. */
const bodyBytesMax = 1_048_576 + 16_384

/** How to answer, so that one can see what Keyhook does about it. */
type Behaviour = { status: number; delayMs: number; hang: boolean }

export type Received = { at: string; event: string; id: string | null; answer: number | null } & (
  | { signature: 'good'; body: string }
  | { signature: 'bad'; why: string; body: string }
  | { signature: 'unchecked'; why: string | null; body: string }
  | { refused: string }
)

/** The secret for checking signatures, or why there is none: null means that no check was requested. */
export type Secret = { secret: string } | { why: string | null }

type Deps = {
  certificate: Certificate
  behaviour: Behaviour
  secret(): Promise<Secret>
  onReceived(received: Received): void
}

/** A receiver as a customer would write one: read the raw body, verify the signature, answer. */
export function createReceiver(deps: Deps): Server {
  const { certificate, key } = deps.certificate
  return createServer({ cert: certificate, key }, (request, response) => {
    // The sender closed the connection before the end: there is nothing to show.
    receive(deps, request, response).catch(() => response.destroy())
  })
}

async function receive(deps: Deps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const facts = { at: new Date().toISOString(), ...eventOf(request) }
  const body = await read(request)
  if (body === null) {
    deps.onReceived({ ...facts, answer: 413, refused: `a body of more than ${bodyBytesMax} bytes` })
    response.writeHead(413).end()
    // Read and discard the rest: a sender that is still writing would get a closed connection instead of the answer.
    request.resume()
    return
  }
  const checked = await check(body, await deps.secret(), request)
  const { status, delayMs, hang } = deps.behaviour
  const answer = hang ? null : checked.signature === 'bad' ? 401 : status
  deps.onReceived({ ...facts, answer, ...checked, body: body.toString('utf8') })
  if (answer === null) return
  await setTimeout(delayMs)
  response.writeHead(answer).end()
}

const headerEnd = /^x-(.+)-event$/

/** The operator can set the word in the middle of the header. */
function eventOf({ headers }: IncomingMessage): { event: string; id: string | null } {
  const name = Object.keys(headers).find((one) => headerEnd.test(one))
  return { event: name === undefined ? '?' : String(headers[name]), id: headers['webhook-id']?.toString() ?? null }
}

/** Null if the body is too large. */
async function read(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length
    if (bytes > bodyBytesMax) return null
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}

/** Both signatures, where both are sent: an operator can switch off those of Standard Webhooks. */
async function check(body: Buffer, given: Secret, { headers }: IncomingMessage) {
  if ('why' in given) return { signature: 'unchecked', why: given.why } as const
  const service = Object.keys(headers).flatMap((name) => headerEnd.exec(name)?.[1] ?? [])[0]
  const options = { body, headers, secret: given.secret, service }
  try {
    await verifyWebhook({ ...options, signature: 'body' })
    if (headers['webhook-signature'] !== undefined) await verifyWebhook({ ...options, signature: 'standard' })
    return { signature: 'good' } as const
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    return { signature: 'bad', why: error.message } as const
  }
}

export type Certificate = { certificatePath: string; certificate: string; key: string }

const yearMs = 365 * 24 * 60 * 60 * 1_000

/** A certificate for the names of this machine, created once and kept, so that clients which trust it can go on. */
export async function localCertificate(folder: string, now: Date): Promise<Certificate> {
  const certificatePath = join(folder, 'certificate.pem')
  const keyPath = join(folder, 'key.pem')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  try {
    const [certificate, key] = await Promise.all([readFile(certificatePath, 'utf8'), readFile(keyPath, 'utf8')])
    return { certificatePath, certificate, key }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const { certificate, key } = issue(now)
  await writeNewFile(keyPath, key)
  await writeNewFile(certificatePath, certificate)
  return { certificatePath, certificate, key }
}

/** Never follows a link that another user may have put there. */
async function writeNewFile(path: string, text: string): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, text, { mode: 0o600, flag: 'wx' })
}

/** A self-signed certificate (RFC 5280) in DER, by hand: a library for this one form would be 18 packages. */
function issue(now: Date): { certificate: string; key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(set(sequence(oid('550403'), tagged(0x0c, Buffer.from('Keyhook local receiver')))))
  const content = sequence(
    tagged(0xa0, integer(Buffer.of(2))),
    // The first bit of a positive integer is 0.
    integer(Buffer.concat([Buffer.of(0x40), randomBytes(15)])),
    ecdsaWithSha256,
    name,
    sequence(time(now.getTime() - 60_000), time(now.getTime() + 10 * yearMs)),
    name,
    publicKey.export({ format: 'der', type: 'spki' }),
    tagged(
      0xa3,
      sequence(
        // Basic constraints: an authority that signs no other authority, so that it can be trusted as one.
        extension('551d13', critical, sequence(yes, integer(Buffer.of(0)))),
        // Alternative names: a host name has the tag 0x82, an address 0x87.
        extension(
          '551d11',
          notCritical,
          sequence(
            tagged(0x82, Buffer.from('localhost')),
            tagged(0x87, Buffer.of(127, 0, 0, 1)),
            tagged(0x87, Buffer.concat([Buffer.alloc(15), Buffer.of(1)])),
          ),
        ),
      ),
    ),
  )
  const signature = sign('sha256', content, privateKey)
  const certificate = sequence(content, ecdsaWithSha256, tagged(0x03, Buffer.of(0), signature))
  const lines = certificate.toString('base64').replace(/.{64}(?=.)/g, '$&\n')
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: String(privateKey.export({ format: 'pem', type: 'pkcs8' })),
  }
}

/** A value in DER: its tag, its length and its bytes. */
function tagged(tag: number, ...parts: Buffer[]): Buffer {
  const bytes = Buffer.concat(parts)
  const length = bytes.length
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...head), bytes])
}

const sequence = (...parts: Buffer[]): Buffer => tagged(0x30, ...parts)
const set = (...parts: Buffer[]): Buffer => tagged(0x31, ...parts)
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes)
const oid = (hex: string): Buffer => tagged(0x06, Buffer.from(hex, 'hex'))
const yes = tagged(0x01, Buffer.of(0xff))
const [critical, notCritical] = [yes, Buffer.alloc(0)]
const extension = (id: string, isCritical: Buffer, value: Buffer): Buffer =>
  sequence(oid(id), isCritical, tagged(0x04, value))
const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'))

/** Until 2049 RFC 5280 requires UTCTime, which has two digits for the year. */
function time(ms: number): Buffer {
  const digits = `${new Date(ms).toISOString().slice(0, 19).replace(/\D/g, '')}Z`
  return digits < '2050' ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits))
}
