import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'

/** PostgreSQL's SSLRequest. */
const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** The certificate that a PostgreSQL server on loopback shows, whoever signed it. */
export async function shownCertificate(port: number, options: ConnectionOptions = {}): Promise<X509Certificate> {
  const socket = connect({ host: '127.0.0.1', port })
  try {
    socket.write(sslRequest)
    const [answer] = await once(socket, 'data')
    if (String(answer) !== 'S') throw new Error('the server does not support TLS')
    const secure = connectTls({ ...options, socket, rejectUnauthorized: false })
    secure.on('error', () => {})
    await once(secure, 'secureConnect')
    return new X509Certificate(secure.getPeerCertificate().raw)
  } finally {
    socket.destroy()
  }
}
