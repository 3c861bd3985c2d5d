import { expect, onTestFinished, test } from 'vitest'
import { notifyOwners } from '../../src/mail/notices.ts'
import { isMailOn } from '../../src/mail/queue-sql.ts'
import { setMember } from '../../src/organizations/rules.ts'
import { createInstallation, people, testOperator } from '../kit/installation.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { startMailServer } from './support/mail-server.ts'
import { mailSettings } from './support/mailing-api.ts'

test('a mail that a killed process was sending is sent by the next one', async () => {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const { db } = installation
  const who = people(installation)
  const orgId = await who.organization()
  const { userId } = await who.person()
  await setMember(db, testOperator, { orgId, userId, role: 'owner' })
  let arrivals = 0
  const server = await startMailServer({
    // The first mail is never answered.
    onMailFrom: (_address, _session, done) => void (arrivals++ > 0 && done()),
  })
  onTestFinished(() => server.stop())
  const { url } = await bridgeTo(installation.target)
  const environment = {
    ...mailSettings(server.port),
    DATABASE_URL: url,
    KEYHOOK_MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
  }
  const first = await serve(environment, ['--json', '--role', 'api'])
  await until(() => isMailOn(db))
  await db.begin((tx) =>
    notifyOwners(tx, orgId, [
      { kind: 'key.leaked', id: 'key_1', name: 'ci', keyPrefix: 'kh_x', foundAt: null, alsoRevoked: 0 },
    ]),
  )
  await until(() => arrivals === 1)
  await first.stop('SIGKILL')
  expect(await db`select from keyhook.mails where attempts = 1 and due_at > now()`).toHaveLength(1)
  await db`update keyhook.mails set due_at = now()`
  await serve(environment, ['--json', '--role', 'api'])
  await until(() => server.mails.length > 0)
  await until(async () => (await db`select from keyhook.mails`).length === 0)
  expect(server.mails).toHaveLength(1)
})
