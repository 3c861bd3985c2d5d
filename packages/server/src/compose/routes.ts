import type { Authenticate } from '../access/authenticate.ts'
import { backupRoutes, backupScheduleRoutes, restoreRoutes } from '../backups/routes.ts'
import { archiveProblem } from '../backups/rules.ts'
import { invoiceRoutes, operatorInvoiceRoutes } from '../billing/routes.ts'
import { databaseRoutes, databaseStatsRoutes } from '../databases/routes.ts'
import { createTransact, type Database } from '../db/database.ts'
import { operatorDeletionRoutes, organizationDeletionRoutes } from '../deletion/routes.ts'
import { eventLogRoutes, eventStreamRoutes } from '../delivery/event-log-routes.ts'
import { eventTypeRoutes, webhookEventRoutes } from '../delivery/event-routes.ts'
import type { EventFeed, Hints } from '../delivery/hints.ts'
import { createIntake } from '../delivery/intake.ts'
import { operatorEventRoutes } from '../delivery/intake-routes.ts'
import { deliveryRoutes, organizationDeliveryRoutes } from '../delivery/routes.ts'
import { webhookSendingRoutes } from '../delivery/sending-routes.ts'
import type { Route } from '../http/route.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { restrictedKeyRoutes } from '../keys/restricted-routes.ts'
import { apiKeyRoutes, keyRevocationRoutes } from '../keys/routes.ts'
import { serviceKeyRoutes } from '../keys/service-key-routes.ts'
import type { KeyUses } from '../keys/uses.ts'
import { createLocalIssuer } from '../login/login-tokens.ts'
import { introspectionRoutes } from '../operator/introspection.ts'
import { operatorOverviewRoutes } from '../operator/overview.ts'
import { quotaRoutes } from '../operator/quota-routes.ts'
import { openOrganizationRoutes, operatorTokenRoutes, type SignOperatorToken } from '../operator/token-routes.ts'
import { invitationRoutes } from '../organizations/invitation-routes.ts'
import { memberRoutes } from '../organizations/member-routes.ts'
import {
  operatorMemberRoutes,
  operatorOrganizationRoutes,
  operatorUserRoutes,
} from '../organizations/operator-routes.ts'
import { auditLogRoutes, organizationRoutes, organizationSettingsRoutes } from '../organizations/routes.ts'
import { createHoldOrganization } from '../organizations/rules.ts'
import { serviceMemberRoutes } from '../organizations/service-member-routes.ts'
import type { Installation } from '../startup/open.ts'
import { webhookRoutes, webhookSettingsRoutes } from '../webhooks/routes.ts'
import { suspensionRoutes } from '../webhooks/suspension-routes.ts'

type Parts = {
  queue: JobQueue
  hints: Hints
  intakeDb: Database
  authenticate: Authenticate
  keyUses: KeyUses
  feed: EventFeed
}

/** The route table, each row with what its handler works on. */
export function composeRoutes(
  { db, masterKeys, config }: Installation,
  { queue, hints, intakeDb, authenticate, keyUses, feed }: Parts,
): Route[] {
  const { enqueue } = queue
  const { databasesPerOrgMax, databaseStorageMax, archivesPerOrgMax } = config
  const hasTls = config.databasesTls !== 'off'
  const transact = createTransact(db, hints.give)
  const intake = createIntake({ db: intakeDb, hint: hints.give })
  const holdOrganization = createHoldOrganization(transact)
  const { keyTag, keysPerOrgMax, keyDaysMax } = config
  const keyDeps = { db, transact, holdOrganization, keyTag, keysPerOrgMax, keyDaysMax }
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  return [
    ...organizationRoutes({ db }),
    ...apiKeyRoutes(keyDeps),
    ...restrictedKeyRoutes(keyDeps),
    ...serviceKeyRoutes(keyDeps),
    ...keyRevocationRoutes({ holdOrganization: createHoldOrganization(transact) }),
    ...suspensionRoutes({ db, suspendAfterHours: config.webhookSuspendAfterHours }),
    ...webhookRoutes({ db, holdOrganization, masterKeys, webhooksPerOrgMax: config.webhooksPerOrgMax }),
    ...deliveryRoutes({ db }),
    ...webhookSettingsRoutes({ db, transact, masterKeys }),
    ...webhookSendingRoutes({ db, holdOrganization, transact }),
    ...organizationDeliveryRoutes({ db }),
    ...eventLogRoutes({ db }),
    ...eventStreamRoutes({ db, feed }),
    ...webhookEventRoutes({ db }),
    ...eventTypeRoutes({ db }),
    ...operatorEventRoutes({ db, intake, eventBytesMax: config.eventBytesMax }),
    ...organizationSettingsRoutes({ holdOrganization }),
    ...organizationDeletionRoutes({ holdOrganization, enqueue }),
    ...memberRoutes({ db, holdOrganization }),
    ...serviceMemberRoutes({ holdOrganization }),
    ...invitationRoutes({
      db,
      holdOrganization,
      publicUrl: config.publicUrl,
      mailPerAddressMax: config.mailPerAddressMax,
    }),
    ...auditLogRoutes({ db }),
    ...databaseRoutes({
      db,
      holdOrganization,
      transact,
      enqueue,
      databasesPerOrgMax,
      databaseStorageMax,
      hasTls,
      recoveryProblem: async (orgId) =>
        config.pointInTimeRestore === 'on' ? archiveProblem(db, orgId, archivesPerOrgMax) : null,
    }),
    ...databaseStatsRoutes({ db }),
    ...backupRoutes({ db, queue, transact, archivesPerOrgMax }),
    ...backupScheduleRoutes({ db, installed: { everyHours: config.backupEveryHours, keep: config.backupsKept } }),
    ...restoreRoutes({ db, holdOrganization, enqueue, databasesPerOrgMax, databaseStorageMax, hasTls }),
    ...invoiceRoutes({ db }),
    // What operators do over HTTP besides events. The commands use the same functions.
    ...introspectionRoutes({
      db,
      identify: authenticate.identify,
      keyUses,
      keysRequireLogin: config.keysRequireLogin === 'on',
    }),
    ...operatorOverviewRoutes({ db }),
    ...quotaRoutes({ db, config }),
    ...openOrganizationRoutes({
      db,
      issue: ({ orgId, actor: { tokenId, sessionId }, ttlSeconds }) =>
        issuer.issue({
          subject: 'operator',
          operator: true,
          openedOrg: orgId,
          ttlSeconds,
          // The id of the operator token: when that is revoked, this one is refused too.
          ...(tokenId !== null && { tokenId }),
          ...(sessionId && { sessionId }),
        }),
    }),
    ...operatorOrganizationRoutes({ db }),
    ...operatorUserRoutes({ db, transact }),
    ...operatorMemberRoutes({ db, transact }),
    ...operatorDeletionRoutes({ db, transact, enqueue }),
    ...operatorTokenRoutes({ db, sign: signOperatorTokens(masterKeys) }),
    ...operatorInvoiceRoutes({ db, transact }),
  ]
}

export function signOperatorTokens(masterKeys: Installation['masterKeys']): SignOperatorToken {
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  return (token) => issuer.issue({ subject: 'operator', operator: true, ...token })
}
