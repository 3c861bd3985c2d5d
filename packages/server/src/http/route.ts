import Type, { type Static, type TSchema } from 'typebox'
import type { Actor, AuditAction } from '../domain/audit.ts'
import type { Permission, Reach } from '../domain/roles.ts'
import type { FaultCode } from '../kernel/faults.ts'
import type { OrgId, UserId } from '../kernel/ids.ts'
import type { Access } from '../store/access.ts'
import type { PageRequest } from '../store/page.ts'
import type { Basis, Choice } from './basis.ts'
import type { Tag } from './openapi/tags.ts'
import type { PathParams } from './path-parameters.ts'

/** A request that has passed authentication, authorization and validation: all that a handler gets to see. */
export type Call<Body = unknown, Query = unknown, Params = Readonly<Record<string, string>>> = {
  userId: UserId
  actor: Actor
  access: Access
  /** The organization of the path. The caller is a member of it, and has the permission that the route names. */
  orgId: OrgId
  /** How far that permission reaches: everybody's things, or only the caller's own. */
  reach: Exclude<Reach, 'none'>
  /** The ids of the path, each of its shape. */
  params: Params
  query: Query
  body: Body
}

export type Listing<Row> = {
  page(request: PageRequest): Promise<readonly Row[]>
  keyOf(row: Row): string
  record(row: Row): object
  /** Checks that a cursor which came back from outside is one of ours. */
  isKey(text: string): boolean
  /** Rows fetched at a time, where one may hold as much as a receiver has answered. */
  rowsAtOnce?: number
}

export type Answer =
  | { status: 200; body: object }
  // biome-ignore lint/suspicious/noExplicitAny: a list of any kind of row; its own functions agree on which.
  | { status: 200; list: Listing<any> }
  | { status: 201; location: string; body: object }
  | { status: 202; body: object }
  | { status: 204 }

/** A request that carries an operator token: it may do anything that an operator route does, to any organization. */
export type OperatorCall<Body = unknown, Query = unknown, Params = Readonly<Record<string, string>>> = {
  actor: Extract<Actor, { kind: 'operator' }>
  /** The ids of the path, each of its shape. */
  params: Params
  query: Query
  body: Body
}

type RouteShape = {
  method: 'GET' | 'POST' | 'DELETE'
  /** With the names of `path-parameters.ts`, which say what ids they are. */
  path: string
  /** What this route writes into the audit log; null for reads. */
  audit: AuditAction | null
  basis: Basis
  /** What was left open about it besides. */
  choices?: readonly Choice[]
  tag: Tag
  summary: string
  description: string
  query?: TSchema
  body?: TSchema
  /** Makes of the body what the handler gets, where a schema cannot say all. What it refuses is refused before an id is looked at. */
  decode?(body: unknown): Promise<unknown>
  /** For the one route that takes many things at once; everything else has the server's limit. */
  bodyBytesMax?: number
  /** What its fields hold is sent on as it came, down to the last digit of a number. */
  passesOnNumbers?: boolean
  success: { status: 200 | 201 | 202 | 204; description: string; schema?: TSchema }
  /** Problem codes of this route beyond those that every route can answer. */
  faults?: readonly (FaultCode | Conflict)[]
}

/** A 409 rests on the decision that makes the two things exclude each other, and says which they are. */
export type Conflict = { code: 'conflict'; decision: number; when: string }
export const conflict = (decision: number, when: string): Conflict => ({ code: 'conflict', decision, when })

/** Which permission a route needs is checked before its handler runs. Every route has to say. */
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

/** A `?force=true` that nobody reads would be worse than one that is refused. */
const noQuery = Type.Object({}, { additionalProperties: false })
/** And so is a `{"dry_run": true}`. Not in the table, whose bodies are documented as required. */
export const noBody = Type.Object({}, { additionalProperties: false })

/** Ties the handler's types to the path and the schemas that were checked before it runs. */
export const route = <Path extends string, Q extends TSchema, B extends TSchema, Decoded = Static<B>>(
  definition: Typed<Permission, Path, Call<Decoded, Static<Q>, PathParams<Path>>, Q, B, Decoded>,
): Route => ({ query: noQuery, ...definition }) as unknown as MemberRoute

export const operatorRoute = <Path extends string, Q extends TSchema, B extends TSchema, Decoded = Static<B>>(
  definition: Typed<'operator', Path, OperatorCall<Decoded, Static<Q>, PathParams<Path>>, Q, B, Decoded>,
): Route => ({ query: noQuery, ...definition }) as unknown as OperatorRoute
