import type { Logger } from 'pino'
import { composeConfirmation, composeSignIn } from '../login/mailed-links.ts'
import { composeNotice } from '../mail/notice-mail.ts'
import { createMailSender } from '../mail/sender.ts'
import { createSmtp, type SmtpOptions } from '../mail/smtp.ts'
import { composeInvitation } from '../organizations/invitation-mail.ts'
import type { Config } from '../settings/config.ts'
import type { Installation } from '../startup/open.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** Null without a mail server. The settings were checked: the others are there with it. */
export const smtpOptions = ({ smtpUrl, mailFrom, smtpTls, smtpCa }: Config): SmtpOptions | null =>
  smtpUrl === null ? null : { server: smtpUrl, from: mailFrom!, tls: smtpTls, ca: smtpCa }

/** Sends what all processes queue, in each process that has a mail server. */
export function composeMail(
  { db, masterKeys, config }: Installation,
  { log, metrics }: { log: Logger; metrics: Metrics },
): { close(): Promise<void> } | null {
  const options = smtpOptions(config)
  if (options === null) return null
  return createMailSender({
    db,
    masterKeys,
    smtp: createSmtp(options),
    publicUrl: config.publicUrl!,
    compose: {
      invitation: composeInvitation,
      confirmation: composeConfirmation,
      sign_in: composeSignIn,
      notice: composeNotice(config.mailPerAddressMax),
    },
    log,
    onOutcome: metrics.mailed,
  })
}
