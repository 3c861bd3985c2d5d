import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

export type Mail = { from: string; to: string[]; raw: string; text: string; html: string; headers: string }

/** A real SMTP server on loopback, which keeps what it gets. */
export async function startMailServer(options: SMTPServerOptions & { port?: number } = {}) {
  const mails: Mail[] = []
  const { port = 0, ...own } = options
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    disableReverseLookup: true,
    closeTimeout: 100,
    async onData(stream, { envelope }, done) {
      mails.push(read(await text(stream), envelope.mailFrom, envelope.rcptTo))
      done()
    },
    ...own,
  })
  server.on('error', () => {})
  await once(server.listen(port, '127.0.0.1'), 'listening')
  const address = server.server.address() as AddressInfo
  return {
    port: address.port,
    mails,
    /** The mails to an address, as they have come. */
    to: (wanted: string) => mails.filter(({ to }) => to.includes(wanted)),
    stop: () => new Promise<void>((done) => void server.close(() => done())),
  }
}

type Address = { address: string }

function read(raw: string, from: Address | false, to: readonly Address[]): Mail {
  const [headers = ''] = raw.split('\r\n\r\n', 1)
  const part = (type: string): string => {
    const [, head = '', body = ''] =
      new RegExp(`((?:^|\\r\\n)content-type: ${type}[^]*?)\\r\\n\\r\\n([^]*?)\\r\\n--(?! )`, 'i').exec(raw) ?? []
    if (/base64/i.test(head)) return Buffer.from(body, 'base64').toString()
    return (/quoted-printable/i.test(head) ? unquote(body) : body).replaceAll('\r\n', '\n')
  }
  return {
    from: from === false ? '' : from.address,
    to: to.map(({ address }) => address),
    raw,
    headers,
    text: part('text/plain'),
    html: part('text/html'),
  }
}

function unquote(text: string): string {
  const bytes = text
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

/** The secret of the link in a mail. */
export const linkIn = ({ text }: Mail): string => /https:\S+#([\w-]{43})/.exec(text)![1]!
