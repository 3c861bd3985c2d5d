import { type Logger, pino } from 'pino'
import { onTestFinished } from 'vitest'
import { composeMail } from '../../../src/compose/mail.ts'
import { isMailOn } from '../../../src/mail/queue-sql.ts'
import type { Installation } from '../../../src/startup/open.ts'
import { createMetrics } from '../../../src/telemetry/metrics.ts'
import { startApiForTest } from '../../kit/installation.ts'
import { until } from '../../kit/until.ts'
import { startMailServer } from './mail-server.ts'

const silent = pino({ level: 'silent' })

/** The settings of mail with a server on this machine. */
export const mailSettings = (port: number, more: Record<string, string> = {}): Record<string, string> => ({
  KEYHOOK_SMTP_URL: `smtp://127.0.0.1:${port}`,
  KEYHOOK_MAIL_FROM: 'Keyhook <keyhook@example.com>',
  KEYHOOK_PUBLIC_URL: 'https://keyhook.example.com/db',
  ...more,
})

/** What sends mail in a process, until the test ends. */
export async function startSender(installation: Installation, log: Logger = silent) {
  const metrics = createMetrics()
  const sender = composeMail(installation, { log, metrics })!
  onTestFinished(() => sender.close())
  await until(() => isMailOn(installation.db))
  return { ...sender, metrics }
}

/** An API with a mail server, and what sends. */
export async function mailingApi(more: Record<string, string> = {}, log: Logger = silent) {
  const server = await startMailServer()
  onTestFinished(() => server.stop())
  const api = await startApiForTest(mailSettings(server.port, more), log)
  const sender = await startSender(api, log)
  const queued = async () => (await api.db`select from keyhook.mails`).length
  return {
    api,
    server,
    sender,
    /** Waits until nothing is left to send. */
    sent: () => until(queued, (count) => count === 0),
  }
}
