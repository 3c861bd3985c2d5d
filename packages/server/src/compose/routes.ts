import { operatorEventRoutes } from '../http/operator/events.ts'
import { operatorInvoiceRoutes } from '../http/operator/invoices.ts'
import { auditLogRoutes } from '../http/platform/audit-log.ts'
import { backupRoutes } from '../http/platform/backups.ts'
import { databaseRoutes } from '../http/platform/databases.ts'
import { invoiceRoutes } from '../http/platform/invoices.ts'
import { restoreRoutes } from '../http/platform/restores.ts'
import { webhookEventRoutes } from '../http/platform/webhook-events.ts'
import { webhookSendingRoutes } from '../http/platform/webhook-sending.ts'
import { apiKeyRoutes } from '../http/published/api-keys.ts'
import { deliveryRoutes } from '../http/published/deliveries.ts'
import { organizationRoutes } from '../http/published/organizations.ts'
import { webhookRoutes } from '../http/published/webhooks.ts'
import type { Route } from '../http/route.ts'
import { beginBackup, removeBackup } from '../platform/backups.ts'
import { payInvoice } from '../platform/invoices.ts'
import type { JobQueue } from '../platform/jobs/queue.ts'
import type { Installation } from '../startup/open.ts'
import { createHoldOrganization } from '../store/hold-organization.ts'
import type { Hints } from '../webhooks/hints.ts'
import { publish, publishSample } from '../webhooks/publishing/publish.ts'
import { createReporting } from '../webhooks/publishing/reporting.ts'

/** The route table, each row with what its handler works on. */
export function composeRoutes(
  { db, masterKeys, config }: Installation,
  { queue, hints }: { queue: JobQueue; hints: Hints },
): Route[] {
  const { enqueue } = queue
  const { databasesPerOrgMax } = config
  const hint = hints.give
  // Half of the connections, so that those who wait for nobody have the other half.
  const waitingMax = Math.max(1, Math.floor(config.databaseConnections / 2))
  const { report } = createReporting({ db, waitingMax, hint })
  const holdOrganization = createHoldOrganization(db)
  return [
    ...organizationRoutes({ db }),
    ...apiKeyRoutes({ db, holdOrganization, keyTag: config.keyTag, keysPerOrgMax: config.keysPerOrgMax }),
    ...webhookRoutes({ db, holdOrganization, masterKeys, webhooksPerOrgMax: config.webhooksPerOrgMax }),
    ...deliveryRoutes({ db }),
    ...webhookSendingRoutes({ db, holdOrganization, publishSample, hint }),
    ...webhookEventRoutes({ db }),
    ...operatorEventRoutes({ db, report, eventBytesMax: config.eventBytesMax }),
    ...auditLogRoutes({ db }),
    ...databaseRoutes({ db, holdOrganization, enqueue, publish, hint, databasesPerOrgMax }),
    ...backupRoutes({
      db,
      begin: (asked) => beginBackup({ db, queue }, { ...asked, origin: 'requested' }),
      remove: (asked) => removeBackup({ db, queue }, asked),
    }),
    ...restoreRoutes({ db, holdOrganization, enqueue, databasesPerOrgMax }),
    ...invoiceRoutes({ db }),
    ...operatorInvoiceRoutes({ db, pay: (actor, id) => payInvoice(db, actor, id) }),
  ]
}
