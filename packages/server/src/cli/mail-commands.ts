import { randomUUID } from 'node:crypto'
import { createOutput, exitOnSignal, type KeyhookCommand, OperationFailed, UsageError } from '@keyhook/cli'
import { smtpOptions } from '../compose/mail.ts'
import { isMailAddress } from '../lib/mail-server.ts'
import { createSmtp, explainSmtp, smtpProblem } from '../mail/smtp.ts'
import { testMail } from '../mail/templates/links.ts'
import { readConfig } from '../settings/config.ts'

export function addCommands(program: KeyhookCommand): void {
  program
    .command('mail')
    .command('test')
    .description('Send a mail now, and say what the mail server answers')
    .examples('npx keyhook mail test --to you@example.com')
    .requiredOption('--to <address>', 'Send the mail to this address')
    .option('--json', 'Print one line of JSON')
    .action(test)
}

/** Without the database: it also works before the first start. */
async function test({ to, json }: { to: string; json?: boolean }): Promise<void> {
  const config = readConfig(process.env)
  const options = smtpOptions(config)
  if (options === null)
    throw new UsageError(
      'KEYHOOK_SMTP_URL is not set, so this installation sends no mail. Set it, KEYHOOK_MAIL_FROM and KEYHOOK_PUBLIC_URL.',
    )
  if (!isMailAddress(to)) throw new UsageError(`--to: ${JSON.stringify(to)} is not an e-mail address`)
  const content = testMail(new URL(config.publicUrl!).host)
  const { host, port } = options.server
  try {
    const response = await exitOnSignal(() => createSmtp(options).send({ id: randomUUID(), to, content }))
    createOutput({ json }).result(
      { sent: true, to, server: `${host}:${port}`, response },
      `${host}:${port} accepted the mail to ${to}: ${response}`,
    )
  } catch (error) {
    throw new OperationFailed(`${explainSmtp(error, options)}\n${host}:${port} said: ${smtpProblem(error)}`)
  }
}
