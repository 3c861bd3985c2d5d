import { rootCertificates } from 'node:tls'
import { createTransport } from 'nodemailer'
import type { MailFrom, MailServer } from '../lib/mail-server.ts'
import { isLoopback } from '../lib/network.ts'
import type { Content } from './templates/content.ts'
import { renderHtml, renderText, subjectOf } from './templates/layout.ts'

export type Smtp = {
  /** Resolves with the answer of the server when it has accepted the mail. */
  send(mail: { id: string; to: string; content: Content }): Promise<string>
}

const connectMsMax = 10_000
const silentMsMax = 30_000
/** Shorter than the claim of a mail, or another process would send it in the meantime. */
const sendMsMax = 90_000

export type SmtpOptions = {
  server: MailServer
  from: MailFrom
  /** `auto`: required, except for a server on this machine. */
  tls: 'auto' | 'required' | 'off'
  /** Certificate authorities besides the public ones. */
  ca: string | null
}

/** A connection for each mail: there are few, and a connection that is kept is closed by the server at any time. */
export function createSmtp({ server, from, tls, ca }: SmtpOptions): Smtp {
  const { host, port, isSecure, login } = server
  const withoutTls = tls === 'off' || (tls === 'auto' && !isSecure && (host === '::1' || isLoopback(host)))
  const transport = createTransport({
    host,
    port,
    secure: isSecure,
    requireTLS: !withoutTls,
    ignoreTLS: withoutTls,
    ...(login && { auth: login }),
    tls: { ...(ca !== null && { ca: [...rootCertificates, ca] }) },
    connectionTimeout: connectMsMax,
    greetingTimeout: connectMsMax,
    dnsTimeout: connectMsMax,
    socketTimeout: silentMsMax,
    // The content has texts of customers.
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  const domain = from.address.split('@')[1]

  return {
    async send({ id, to, content }) {
      const sending = transport.sendMail({
        from,
        // An object is one address: a text could be read as several.
        to: { name: '', address: to },
        // The same for every attempt, so that a mail program shows a mail that was sent twice once.
        messageId: `<${id}@${domain}>`,
        subject: subjectOf(content),
        text: renderText(content),
        html: renderHtml(content),
        headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
      })
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => late.reject(new Error(`no answer within ${sendMsMax / 1_000} seconds`)), sendMsMax)
      sending.catch(() => {})
      try {
        return (await Promise.race([sending, late.promise])).response
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

type SmtpError = Error & { code?: string; responseCode?: number; response?: string; command?: string }

/**
 * The server refuses the recipient for good. Refusals of the sender (MAIL FROM) and of the content (DATA) are tried again: they are
 * often a setting that the operator corrects, and would end every mail until then.
 */
export const isRefusedForGood = (error: unknown): boolean => {
  const { command, responseCode = 0 } = error as SmtpError
  return command === 'RCPT TO' && responseCode >= 500 && responseCode < 600
}

/** For the log and for people: the answer of the server, without what we have sent. */
export const smtpProblem = (error: unknown): string => {
  const { response, message, code } = error as SmtpError
  return `${response ?? message}${code === undefined ? '' : ` (${code})`}`.slice(0, 500)
}

/** What the operator can do about it. */
export function explainSmtp(error: unknown, { server: { host, port, isSecure }, tls }: SmtpOptions): string {
  const { code = '', message, responseCode } = error as SmtpError
  const at = `${host}:${port}`
  if (code === 'EAUTH' || code === 'ENOAUTH')
    return `${at} refused the login. Check the user and the password in KEYHOOK_SMTP_URL; characters such as @ : / are percent-encoded there.`
  if (/certificate|altname|self-signed/i.test(message))
    return `The certificate of ${at} was not accepted. If its authority is a private one, name it in KEYHOOK_SMTP_CA_FILE; the host in KEYHOOK_SMTP_URL has to be a name in the certificate.`
  if (code === 'ETLS' || /wrong version number|packet length|STARTTLS|ssl3|tls_/i.test(message))
    return isSecure
      ? `${at} did not answer with TLS. If it expects STARTTLS (usually port 587), use smtp:// and not smtps:// in KEYHOOK_SMTP_URL.`
      : `${at} offers no TLS. If it expects TLS from the start (usually port 465), use smtps:// in KEYHOOK_SMTP_URL. ${tls === 'off' ? '' : 'KEYHOOK_SMTP_TLS=off allows mail without TLS, which others on the way can read.'}`.trim()
  if (code === 'EDNS' || /ENOTFOUND|EAI_AGAIN/.test(message))
    return `The name ${host} cannot be resolved. Check the host in KEYHOOK_SMTP_URL.`
  if (/ECONNREFUSED/.test(message)) return `Nothing listens at ${at}. Check the host and the port in KEYHOOK_SMTP_URL.`
  if (code === 'ETIMEDOUT' || /timeout|no answer/i.test(message))
    return `${at} did not answer in time. A firewall may be in the way${isSecure ? '' : ', or the server expects TLS from the start (smtps://)'}; many providers block port 25.`
  if (code === 'EENVELOPE')
    return `${at} refused the sender or the recipient. The server has to allow the address in KEYHOOK_MAIL_FROM${responseCode === undefined ? '' : `; it answered ${responseCode}`}.`
  return `${at} did not accept the mail.`
}
