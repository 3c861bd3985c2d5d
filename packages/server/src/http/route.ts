import type { Static, TSchema } from 'typebox'
import type { Access } from '../access/access.ts'
import type { Actor, AuditAction, OperatorActor } from '../access/audit.ts'
import type { Permission, Reach } from '../access/roles.ts'
import type { PageRequest, Transaction } from '../db/database.ts'
import type { FaultCode } from '../lib/fault-catalogue.ts'
import {
  type DatabaseId,
  eventIdPattern,
  type Id,
  type IdPrefix,
  idPattern,
  type OrgId,
  type UserId,
} from '../lib/ids.ts'
import { type Basis, type Choice, specified } from './basis.ts'
import type { EventStream } from './event-stream.ts'
import type { Tag } from './openapi/tags.ts'
import { closed } from './schemas.ts'

/** A request that has passed authentication, authorization and validation: this is all that a handler gets. */
export type Call<Body = unknown, Query = unknown, Params = AnyIds> = Asked<Body, Query, Params> & {
  userId: UserId
  actor: Actor
  access: Access
  /** The organization of the path. The caller is a member of it, and has the permission that the route names. */
  orgId: OrgId
  /** Whether the permission covers all records, or only those that the caller created. */
  reach: Exclude<Reach, 'none'>
  /** What the handler limits its lists and records to; null: nothing. Ids in the path are checked before. */
  databases: readonly DatabaseId[] | null
}

/** A request with an operator token: it may use every operator route, for any organization. */
export type OperatorCall<Body = unknown, Query = unknown, Params = AnyIds> = Asked<Body, Query, Params> & {
  actor: OperatorActor
}

type AnyIds = Readonly<Record<string, string>>

type Asked<Body, Query, Params> = {
  once: Once
  /** The ids of the path; their form has been checked. */
  params: Params
  query: Query
  body: Body
  headers: Readonly<Record<string, string | string[] | undefined>>
}

export type Listing<Row> = {
  page(request: PageRequest): Promise<readonly Row[]>
  keyOf(row: Row): string
  record(row: Row): object
  /** Whether a decoded cursor has the form of a key of this list. */
  isKey(text: string): boolean
  /** Rows per query, for lists with large rows. */
  rowsAtOnce?: number
}

/** `withoutSecrets`: what a repetition with the same Idempotency-Key answers, if `body` has secrets. */
export type Created = ({ status: 201; location: string } | { status: 202 }) & {
  body: object
  withoutSecrets?: object
  isReplayed?: boolean
}

export type Answer =
  | { status: 200; body: object }
  // biome-ignore lint/suspicious/noExplicitAny: the row type differs per list; the functions of one list agree on it.
  | { status: 200; list: Listing<any> }
  | { status: 200; stream: EventStream }
  | Created
  | { status: 204; headers?: Readonly<Record<string, string>> }

/** Runs a creation in its transaction, at most once for each Idempotency-Key (`idempotency.ts`). */
export type Once = (tx: Transaction, create: () => Promise<Created>) => Promise<Answer>

type RouteShape = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With the names of `pathParameters`. */
  path: string
  /** What this route writes into the audit log; null for reads. */
  audit: AuditAction | null
  /** Keys that are limited to some databases may call it: the handler heeds `databases`. */
  isForDatabaseKeys?: true
  /** A POST that changes nothing: successes are logged like those of a GET. */
  isRead?: true
  /** Also of its parts, unless they have another. */
  basis: Basis
  /** Details that the published interface leaves open. */
  choices?: readonly Choice[]
  tag: Tag
  summary: string
  description: string
  query?: TSchema
  /** Request headers that the handler reads, for the document. */
  headers?: readonly DocumentedHeader[]
  body?: TSchema
  /** The body may also be a form (`application/x-www-form-urlencoded`). */
  takesForm?: boolean
  /** Checks and converts the body where a schema is not enough. Runs before the ids of the path are checked. */
  decode?(body: unknown): Promise<unknown>
  /** For a route that takes batches; other routes have the limit of the server. */
  bodyBytesMax?: number
  /** Numbers in the body are passed on exactly as they were sent, with every digit. */
  passesOnNumbers?: boolean
  success: {
    status: 200 | 201 | 202 | 204
    description: string
    schema?: TSchema
    /** JSON unless it says otherwise. */
    mediaType?: string
    headers?: readonly DocumentedHeader[]
  }
  /** Problem codes of this route beyond those that every route can answer; `not_found` is one of these if the path has ids. */
  faults?: readonly FaultCode[]
}

export type DocumentedHeader = { name: string; description: string; basis?: Basis; pattern?: string }

/** Whether the body may be left out: none of its fields is required. */
export const isBodyOptional = ({ body }: Pick<RouteShape, 'body'>): boolean =>
  body === undefined || ((body as { required?: string[] }).required ?? []).length === 0

/** The permission is checked before the handler runs. Every route has to name one. */
export type MemberRoute = RouteShape & { needs: Permission; handler(call: Call): Answer | Promise<Answer> }
export type OperatorRoute = RouteShape & { needs: 'operator'; handler(call: OperatorCall): Answer | Promise<Answer> }
export type Route = MemberRoute | OperatorRoute

type Typed<Needs, Path, C, Q extends TSchema, B extends TSchema, Decoded> = Omit<
  RouteShape,
  'path' | 'query' | 'body' | 'decode'
> & {
  needs: Needs
  path: Path
  query?: Q
  body?: B
  decode?(body: Static<B>): Promise<Decoded>
  handler(call: C): Answer | Promise<Answer>
}

/** A parameter such as `?force=true` is refused rather than ignored. */
const noQuery = closed({})
/** The same for a body such as `{"dry_run": true}`. Not in the route table, where a body is documented as required. */
export const noBody = closed({})

/** Ties the handler's types to the path and the schemas that were checked before it runs. */
export const route = <Path extends string, Q extends TSchema, B extends TSchema, Decoded = Static<B>>(
  definition: Typed<Permission, Path, Call<Decoded, Static<Q>, PathParams<Path>>, Q, B, Decoded>,
): Route => ({ query: noQuery, ...definition }) as unknown as MemberRoute

export const operatorRoute = <Path extends string, Q extends TSchema, B extends TSchema, Decoded = Static<B>>(
  definition: Omit<
    Typed<'operator', Path, OperatorCall<Decoded, Static<Q>, PathParams<Path>>, Q, B, Decoded>,
    'needs' | 'tag'
  >,
): Route => ({ query: noQuery, needs: 'operator', tag: 'Operator', ...definition }) as unknown as OperatorRoute

type PathParameter = { name: string; description: string; basis?: Basis } & ({ prefix: IdPrefix } | { pattern: string })

/** The parameters of route paths. Handlers get ids of the named kind only. */
const pathParameters = {
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
  deletionId: { name: 'deletion_id', description: 'The `id` of the deletion.', prefix: 'del' },
  tokenId: { name: 'token_id', description: 'The `id` of the token.', prefix: 'tok' },
} as const satisfies Record<string, PathParameter>

type Known = typeof pathParameters

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

export const pathParameter = (name: string): PathParameter => pathParameters[name as keyof Known]

export const pathParameterNames = (path: string): string[] => [...path.matchAll(/:(\w+)/g)].map(([, name]) => name!)

export const patternOf = (parameter: PathParameter): string =>
  'prefix' in parameter ? idPattern(parameter.prefix) : parameter.pattern
