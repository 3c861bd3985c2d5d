import type { TSchema } from 'typebox'
import { eventIdPattern } from '../../domain/events.ts'
import { type IdPrefix, idPattern } from '../../kernel/ids.ts'
import { type Basis, choice, chosen, specified, withChoices } from '../basis.ts'
import type { Route } from '../route.ts'
import { type Json, plain } from './openapi-node.ts'

type PathParameter = { name: string; description: string; basis?: Basis } & ({ prefix: IdPrefix } | { pattern: string })

const pathParameters: Record<string, PathParameter> = {
  orgId: { name: 'org_id', description: 'The organization.', prefix: 'org' },
  keyId: { name: 'api_key_id', description: 'The `id` of the key.', prefix: 'key' },
  webhookId: { name: 'webhook_id', description: 'The `id` of the webhook.', prefix: 'wh' },
  deliveryId: { name: 'delivery_id', description: 'The `id` of the attempt.', prefix: 'dlv', basis: chosen(38) },
  recoveryId: { name: 'recovery_id', description: 'The `id` of the recovery.', prefix: 'rcv', basis: chosen(39) },
  eventId: { name: 'event_id', description: 'The `id` of the event.', pattern: eventIdPattern, basis: chosen(40) },
  databaseId: { name: 'database_id', description: 'The `id` of the database.', prefix: 'db', basis: chosen(50) },
  backupId: { name: 'backup_id', description: 'The `id` of the backup.', prefix: 'bak', basis: chosen(56) },
  restoreId: { name: 'restore_id', description: 'The `id` of the restore.', prefix: 'rst', basis: chosen(59) },
  invoiceId: { name: 'invoice_id', description: 'The `id` of the invoice.', prefix: 'inv', basis: chosen(62) },
}

/** The path of a route as OpenAPI writes it: `/organizations/{org_id}`. */
export const documentedPath = (path: string): string =>
  path.replace(/:(\w+)/g, (_, name) => `{${pathParameters[name]!.name}}`)

export function parametersOf(route: Route, schemas: Record<string, Json>): Json[] {
  const query = (route.query as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {}
  return [
    ...[...route.path.matchAll(/:(\w+)/g)].map(([, name]) => pathParameter(name!)),
    ...Object.entries(query).map(([name, schema]) => queryParameter(name, plain(schema, schemas))),
  ]
}

function pathParameter(name: string): Json {
  const { name: shown, description, basis, ...shape } = pathParameters[name]!
  const ours = 'prefix' in shape
  return {
    name: shown,
    in: 'path',
    required: true,
    description,
    schema: { type: 'string', pattern: ours ? idPattern(shape.prefix) : shape.pattern },
    ...withChoices(basis ?? specified, ours ? [choice(72, `A TypeID that starts with \`${shape.prefix}_\`.`)] : []),
  }
}

const queryParameter = (
  name: string,
  { description, 'x-basis': basis, 'x-decision': decision, 'x-chosen': choices, ...schema }: Json,
): Json => ({
  name,
  in: 'query',
  required: false,
  description,
  schema,
  'x-basis': basis,
  'x-decision': decision,
  'x-chosen': choices,
})
