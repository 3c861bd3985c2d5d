import { type MailFrom, type MailServer, readMailFrom, readMailServer } from '../lib/mail-server.ts'
import { certificateFile, count, InvalidValue, oneOf, optional, secret, setting } from './setting.ts'

const mailServer = (value: string): MailServer => {
  const server = readMailServer(value)
  if (server === null) {
    throw new InvalidValue('is not an address such as smtp://user:password@mail.example.com:587 or smtps://…:465')
  }
  return server
}

const mailFrom = (value: string): MailFrom => {
  const from = readMailFrom(value)
  if (from === null) throw new InvalidValue('is not an address such as Keyhook <keyhook@example.com>')
  return from
}

/** Mail, which is off without a mail server. */
export const mailSettings = {
  smtpUrl: secret('KEYHOOK_SMTP_URL', mailServer).about(
    'Mail server with user and password: `smtp://` for STARTTLS (port 587 unless given) or `smtps://` for TLS from the start (465). Special characters in them are percent-encoded. If unset, no mail is sent. It needs `KEYHOOK_MAIL_FROM` and `KEYHOOK_PUBLIC_URL`.',
  ),
  mailFrom: optional('KEYHOOK_MAIL_FROM', mailFrom).about(
    'Sender of all mails, such as `Keyhook <keyhook@example.com>`. The mail server has to allow it.',
  ),
  smtpTls: setting('KEYHOOK_SMTP_TLS', 'auto', oneOf('auto', 'required', 'off')).about(
    'TLS with an `smtp://` server. `auto` requires it unless the server is on this machine, and `off` sends everything readable, also the password.',
  ),
  smtpCa: optional(
    'KEYHOOK_SMTP_CA_FILE',
    certificateFile('name the authority that has issued the certificate of the mail server'),
  ).about('PEM file of a certificate authority that the mail server may use besides the public ones.'),
  mailPerAddressMax: setting('KEYHOOK_MAIL_PER_ADDRESS_MAX', '10', count(1, 1_000, 'mails')).about(
    'Largest number of mails of one kind to one address in an hour, over all nodes. The kinds are notices about webhooks, about keys, about backups and about databases, sign-in links, confirmations and invitations. Set it alike on every node.',
  ),
} as const
