import { Fault, NotFound, notFound } from '../lib/faults.ts'
import { eventIdPattern, type Id, type IdPrefix, idPattern, isId } from '../lib/ids.ts'
import { type Basis, specified } from './basis.ts'

type PathParameter = { name: string; description: string; basis?: Basis } & ({ prefix: IdPrefix } | { pattern: string })

/** The parameters of route paths. Handlers get ids of the named kind only. */
const known = {
  orgId: { name: 'org_id', description: 'The organization.', prefix: 'org', basis: specified },
  keyId: { name: 'api_key_id', description: 'The `id` of the key.', prefix: 'key', basis: specified },
  webhookId: { name: 'webhook_id', description: 'The `id` of the webhook.', prefix: 'wh', basis: specified },
  deliveryId: { name: 'delivery_id', description: 'The `id` of the attempt.', prefix: 'dlv' },
  recoveryId: { name: 'recovery_id', description: 'The `id` of the recovery.', prefix: 'rcv' },
  eventId: { name: 'event_id', description: 'The `id` of the event.', pattern: eventIdPattern },
  databaseId: { name: 'database_id', description: 'The `id` of the database.', prefix: 'db' },
  backupId: { name: 'backup_id', description: 'The `id` of the backup.', prefix: 'bak' },
  restoreId: { name: 'restore_id', description: 'The `id` of the restore.', prefix: 'rst' },
  invoiceId: { name: 'invoice_id', description: 'The `id` of the invoice.', prefix: 'inv' },
  userId: { name: 'user_id', description: 'The `id` of the user.', prefix: 'usr' },
  invitationId: { name: 'invitation_id', description: 'The `id` of the invitation.', prefix: 'ivt' },
  tokenId: { name: 'token_id', description: 'The `id` of the token.', prefix: 'tok' },
} as const satisfies Record<string, PathParameter>

type Known = typeof known

type NamesIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

/** The ids of a path, by parameter name. */
export type PathParams<Path extends string> = {
  readonly [Name in NamesIn<Path> & keyof Known]: Known[Name] extends { prefix: infer P extends IdPrefix }
    ? Id<P>
    : string
}

export const pathParameter = (name: string): PathParameter => known[name as keyof Known]

export const pathParameterNames = (path: string): string[] => [...path.matchAll(/:(\w+)/g)].map(([, name]) => name!)

export const patternOf = (parameter: PathParameter): string =>
  'prefix' in parameter ? idPattern(parameter.prefix) : parameter.pattern

/** Names what the path asks for, and nothing else: the same text whether it does not exist or belongs to somebody else. */
export function nameMissing(fault: Fault, path: string | undefined, params: unknown): Fault {
  if (!(fault instanceof NotFound) || path === undefined) return fault
  const isOperators = path.startsWith('/operator/')
  const names = pathParameterNames(path).filter((name) => name !== 'orgId' || isOperators)
  if (names.length === 0) return fault
  const asked = names.reverse().map((name) => named(name, (params as Record<string, string>)[name]!))
  const place = isOperators ? '' : ' in this organization'
  return new Fault('not_found', { public: `No ${asked.join(' of ')}${place}.`, internal: fault.message })
}

/** One answer for: not a member, no such organization, a key of another organization. */
export const noAccess = (asked: string, internal: string): Fault =>
  new Fault('not_found', { public: `No ${named('orgId', asked)} that you have access to.`, internal })

/** Only an id of our own form is repeated: anything else may be a secret in the wrong place, and those are shown once. */
function named(parameterName: string, asked: string): string {
  const parameter = pathParameter(parameterName)
  const kind = parameter.name.replace('api_key', 'API key').replace('org_', 'organization_').slice(0, -3)
  return 'prefix' in parameter && isId(parameter.prefix, asked) ? `${kind} '${asked}'` : `${kind} with this id`
}

/** An id with the wrong form is answered like one that does not exist, so that ids cannot be probed. */
export function createIdCheck(path: string): (params: Readonly<Record<string, string>>) => void {
  const checks = pathParameterNames(path).map((name) => {
    const parameter = pathParameter(name)
    return { name, shown: parameter.name, pattern: new RegExp(patternOf(parameter)) }
  })
  return (params) => {
    for (const { name, shown, pattern } of checks) {
      if (!pattern.test(params[name]!)) throw notFound(`the ${shown} has the wrong form`)
    }
  }
}
