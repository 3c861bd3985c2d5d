import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

const iterations = 4_096
const saltBytes = 16

const hmac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * A SCRAM verifier (RFC 5803), which PostgreSQL accepts instead of the password. So the password is in the response to its owner and
 * is stored nowhere. For ASCII passwords only, which SASLprep does not change.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(saltBytes)): Promise<string> {
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

export const isScramVerifier = (text: string): boolean =>
  /^SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+$/.test(text)
