import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/*
 * A security key in software, as W3C Web Authentication describes it, with the part of the browser. It answers whatever it is told to,
 * also what no browser would.
 */

type Answering = { challenge: string; origin: string; rpId: string }
type Flags = { userVerified?: boolean; signCount?: number }

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest()
const base64url = (data: Buffer | string): string => Buffer.from(data).toString('base64url')

const clientData = (type: string, { challenge, origin }: Answering): Buffer =>
  Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))

/** CBOR (RFC 8949): the head of an item, with a length of at most 65,535. */
const head = (kind: number, value: number): Buffer =>
  value < 24
    ? Buffer.from([(kind << 5) | value])
    : value < 256
      ? Buffer.from([(kind << 5) | 24, value])
      : Buffer.from([(kind << 5) | 25, value >> 8, value & 255])
const int = (value: number): Buffer => (value < 0 ? head(1, -1 - value) : head(0, value))
const bytes = (value: Buffer): Buffer => Buffer.concat([head(2, value.length), value])
const text = (value: string): Buffer => Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
const list = (...items: Buffer[]): Buffer => Buffer.concat([head(4, items.length), ...items])
const map = (...entries: [Buffer, Buffer][]): Buffer => Buffer.concat([head(5, entries.length), ...entries.flat()])

function authenticatorData(rpId: string, { userVerified = true, signCount = 0 }: Flags, attested?: Buffer): Buffer {
  const count = Buffer.alloc(4)
  count.writeUInt32BE(signCount)
  const flags = 0x01 | (userVerified ? 0x04 : 0) | (attested ? 0x40 : 0)
  return Buffer.concat([sha256(rpId), Buffer.from([flags]), count, attested ?? Buffer.alloc(0)])
}

export function createAuthenticator() {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = keys.publicKey.export({ format: 'jwk' })
  const id = randomBytes(32)
  const common = { id: base64url(id), rawId: base64url(id), type: 'public-key', clientExtensionResults: {} }
  let userHandle = ''

  return {
    id: base64url(id),

    /** The answer to `navigator.credentials.create`. */
    create(
      options: { challenge: string; user: { id: string }; rp: { id?: string } },
      { origin, rpId = options.rp.id!, ...flags }: { origin: string; rpId?: string } & Flags,
      attestation: { format: string; certificate?: Buffer } = { format: 'none' },
    ) {
      userHandle = options.user.id
      const key = map(
        [int(1), int(2)],
        [int(3), int(-7)],
        [int(-1), int(1)],
        [int(-2), bytes(Buffer.from(x!, 'base64url'))],
        [int(-3), bytes(Buffer.from(y!, 'base64url'))],
      )
      const length = Buffer.from([id.length >> 8, id.length & 255])
      const data = authenticatorData(rpId, flags, Buffer.concat([Buffer.alloc(16), length, id, key]))
      const client = clientData('webauthn.create', { challenge: options.challenge, origin, rpId })
      const { format, certificate } = attestation
      const signature = sign('sha256', Buffer.concat([data, sha256(client)]), keys.privateKey)
      const statement: [Buffer, Buffer][] = [
        [text('alg'), int(-7)],
        [text('sig'), bytes(signature)],
      ]
      if (certificate) statement.push([text('x5c'), list(bytes(certificate))])
      const object = map(
        [text('fmt'), text(format)],
        [text('attStmt'), format === 'none' ? map() : map(...statement)],
        [text('authData'), bytes(data)],
      )
      const response = { clientDataJSON: base64url(client), attestationObject: base64url(object), transports: ['usb'] }
      return { ...common, response }
    },

    /** The answer to `navigator.credentials.get`. */
    get(answering: Answering, flags: Flags & { userHandle?: string } = {}) {
      const data = authenticatorData(answering.rpId, flags)
      const client = clientData('webauthn.get', answering)
      const signature = sign('sha256', Buffer.concat([data, sha256(client)]), keys.privateKey)
      const response = {
        clientDataJSON: base64url(client),
        authenticatorData: base64url(data),
        signature: base64url(signature),
        userHandle: flags.userHandle ?? userHandle,
      }
      return { ...common, response }
    },
  }
}

export type Authenticator = ReturnType<typeof createAuthenticator>
