import type { Database } from '../db/database.ts'
import type { Authenticate } from '../http/authenticate.ts'
import { operatorEventRoutes } from '../http/operator/events.ts'
import { operatorInvoiceRoutes } from '../http/operator/invoices.ts'
import { keyRevocationRoutes } from '../http/platform/api-keys.ts'
import { auditLogRoutes } from '../http/platform/audit-log.ts'
import { backupScheduleRoutes } from '../http/platform/backup-schedule.ts'
import { backupRoutes } from '../http/platform/backups.ts'
import { databaseStatsRoutes } from '../http/platform/database-stats.ts'
import { databaseRoutes } from '../http/platform/databases.ts'
import { organizationDeliveryRoutes } from '../http/platform/deliveries.ts'
import { eventLogRoutes } from '../http/platform/event-log.ts'
import { eventStreamRoutes } from '../http/platform/event-stream.ts'
import { eventTypeRoutes } from '../http/platform/event-types.ts'
import { invitationRoutes } from '../http/platform/invitations.ts'
import { invoiceRoutes } from '../http/platform/invoices.ts'
import { memberRoutes } from '../http/platform/members.ts'
import { organizationSettingsRoutes } from '../http/platform/organizations.ts'
import { restoreRoutes } from '../http/platform/restores.ts'
import { webhookEventRoutes } from '../http/platform/webhook-events.ts'
import { webhookSendingRoutes } from '../http/platform/webhook-sending.ts'
import { webhookSettingsRoutes } from '../http/platform/webhooks.ts'
import { apiKeyRoutes } from '../http/published/api-keys.ts'
import { deliveryRoutes } from '../http/published/deliveries.ts'
import { organizationRoutes } from '../http/published/organizations.ts'
import { webhookRoutes } from '../http/published/webhooks.ts'
import type { Route } from '../http/route.ts'
import { archiveProblem, checkArchiveQuota } from '../platform/archive-quota.ts'
import { beginBackupWithin, cancelBackup, removeBackup } from '../platform/backups.ts'
import { payInvoice } from '../platform/invoices.ts'
import type { JobQueue } from '../platform/jobs/queue.ts'
import type { Installation } from '../startup/open.ts'
import { createHoldOrganization } from '../store/hold-organization.ts'
import type { KeyUses } from '../store/key-uses.ts'
import { createTransact } from '../store/publishing-transaction.ts'
import type { EventFeed } from '../webhooks/event-feed.ts'
import type { Hints } from '../webhooks/hints.ts'
import { createIntake } from '../webhooks/intake.ts'
import { publish, publishSample } from '../webhooks/publish.ts'
import { composeOperatorRoutes } from './operator-routes.ts'

/** The route table, each row with what its handler works on. */
export function composeRoutes(
  { db, masterKeys, config }: Installation,
  {
    queue,
    hints,
    intakeDb,
    authenticate,
    keyUses,
    feed,
  }: {
    queue: JobQueue
    hints: Hints
    intakeDb: Database
    authenticate: Authenticate
    keyUses: KeyUses
    feed: EventFeed
  },
): Route[] {
  const { enqueue } = queue
  const { databasesPerOrgMax } = config
  const hasTls = config.databasesTls !== 'off'
  const transact = createTransact(db, hints.give)
  const intake = createIntake({ db: intakeDb, hint: hints.give })
  const holdOrganization = createHoldOrganization(transact)
  return [
    ...organizationRoutes({ db }),
    ...apiKeyRoutes({
      db,
      holdOrganization,
      keyTag: config.keyTag,
      keysPerOrgMax: config.keysPerOrgMax,
    }),
    ...keyRevocationRoutes({ holdOrganization: createHoldOrganization(transact) }),
    ...webhookRoutes({ db, holdOrganization, masterKeys, webhooksPerOrgMax: config.webhooksPerOrgMax }),
    ...deliveryRoutes({ db }),
    ...webhookSettingsRoutes({ db, transact, masterKeys }),
    ...webhookSendingRoutes({ db, holdOrganization, transact, publishSample }),
    ...organizationDeliveryRoutes({ db }),
    ...eventLogRoutes({ db }),
    ...eventStreamRoutes({ db, feed }),
    ...webhookEventRoutes({ db }),
    ...eventTypeRoutes({ db }),
    ...operatorEventRoutes({ db, ...intake, eventBytesMax: config.eventBytesMax }),
    ...organizationSettingsRoutes({ holdOrganization }),
    ...memberRoutes({ db, holdOrganization }),
    ...invitationRoutes({ db, holdOrganization, publicUrl: config.publicUrl }),
    ...auditLogRoutes({ db }),
    ...databaseRoutes({
      db,
      holdOrganization,
      transact,
      enqueue,
      publish,
      databasesPerOrgMax,
      hasTls,
      recoveryProblem: async (orgId) =>
        config.pointInTimeRestore === 'on' ? archiveProblem(db, orgId, config.archivesPerOrgMax) : null,
    }),
    ...databaseStatsRoutes({ db }),
    ...backupRoutes({
      db,
      begin: (asked, within) =>
        beginBackupWithin({ db, queue }, { ...asked, origin: 'requested' }, (tx, create) =>
          within(tx, async () => {
            const row = await create()
            await checkArchiveQuota(tx, asked.orgId, config.archivesPerOrgMax)
            return row
          }),
        ),
      cancel: (asked) => cancelBackup(transact, asked),
      remove: (asked) => removeBackup({ db, queue }, asked),
    }),
    ...backupScheduleRoutes({ db }),
    ...restoreRoutes({ db, holdOrganization, enqueue, databasesPerOrgMax, hasTls }),
    ...invoiceRoutes({ db }),
    ...composeOperatorRoutes({ db, masterKeys, config }, { authenticate, keyUses }),
    ...operatorInvoiceRoutes({ db, pay: (actor, id) => payInvoice(transact, actor, id) }),
  ]
}
