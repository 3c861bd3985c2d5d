export type { CreationOptions, ListOptions, OrganizationOptions } from './api.ts'
export { type Client, type ClientOptions, createClient } from './client.ts'
export {
  type ClientErrorCode,
  type ErrorCode,
  EventsExpiredError,
  type FieldError,
  KeyhookError,
  type ProblemCode,
} from './errors.ts'
export type { List, Page, PageOptions } from './list.ts'
export type { AuditAction, AuditEntry, AuditFilter } from './resources/audit.ts'
export type { Backup, BackupSchedule, BackupScheduleInForce } from './resources/backups.ts'
export type {
  CreatedDatabase,
  CreatedRestore,
  Database,
  DatabaseStats,
  DatabaseStorage,
  DatabaseUsage,
  NewDatabase,
  NewRestoreToTime,
  RepeatedDatabase,
  Restore,
} from './resources/databases.ts'
export type {
  AttemptStatus,
  Delivery,
  DeliveryFilter,
  DeliverySummary,
  OrganizationDelivery,
  SendErrorCode,
  SummaryOptions,
} from './resources/deliveries.ts'
export type { EventType, EventTypeRecord, StandardEventType } from './resources/event-types.ts'
export type {
  EventAttempt,
  EventFilter,
  EventOutcomes,
  EventRecord,
  ExplainedEvent,
  ReconcileOptions,
  StreamOptions,
} from './resources/events.ts'
export type { Invoice, InvoiceLine, InvoiceSummary } from './resources/invoices.ts'
export type {
  ApiKey,
  ApiKeyChanges,
  ApiKeyDetails,
  CreatedApiKey,
  KeyLifetime,
  KeyPermission,
  KeyRestrictions,
  NewApiKey,
  NewKeyRotation,
  NewRestrictedApiKey,
  RevokedKeys,
} from './resources/keys.ts'
export type {
  CreatedInvitation,
  Invitation,
  MemberRole,
  NewInvitation,
  NewRole,
  NewServiceMember,
  OrganizationMember,
} from './resources/members.ts'
export type {
  Confirmation,
  Deletion,
  Organization,
  OrganizationSettings,
  Quota,
  QuotaName,
  QuotaUse,
} from './resources/organizations.ts'
export type { NewRestore } from './resources/restores.ts'
export type {
  CreatedWebhook,
  NewRecovery,
  NewRotation,
  NewTestEvent,
  NewWebhook,
  Recovery,
  Redelivery,
  RotatedSecret,
  SecretRotation,
  SecretSwitch,
  StartedRecovery,
  TestEvent,
  Webhook,
  WebhookChanges,
  WebhookHealth,
  WebhookSuspension,
} from './resources/webhooks.ts'
export type { CallOptions, TransportOptions } from './transport.ts'
export { type VerifyOptions, verifyWebhook } from './verify-webhook.ts'
export { type VerificationFailure, WebhookVerificationError } from './webhook-error.ts'
export type { EventData, EventOf, WebhookEvent } from './webhook-event.ts'
export { type DeliverySequence, type HeadersLike, readSequence } from './webhook-headers.ts'
