import Type from 'typebox'
import type { Database, HoldOrganization, Transact } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { operatorRoute, type Route, route } from '../http/route.ts'
import { component, exampleId, id, nullable, timestamp } from '../http/schemas.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { notFound } from '../lib/faults.ts'
import { isoTime } from '../lib/time.ts'
import { deleteOrganization, deleteUser } from './rules.ts'
import { type DeletionRow, findDeletion, listDeletions } from './sql.ts'

const here = chosen(185)

const confirmation = (what: string, example: string) =>
  Type.String({ maxLength: 255, description: `To confirm: ${what}, exactly.`, examples: [example] })

const organizationDeletion = component('OrganizationDeletion', here, {
  confirm: confirmation('the name of the organization', 'Globex'),
})

const userDeletion = component('UserDeletion', here, {
  confirm: confirmation('the e-mail address of the user, or the name of a service member', 'hank@example.com'),
})

const deletion = component('Deletion', here, {
  id: id('del', 'The deletion.'),
  kind: Type.Enum(['organization', 'user'], { description: 'What is deleted.' }),
  target_id: Type.String({ description: 'The id of the organization or user.', examples: [exampleId('org')] }),
  requested_at: timestamp('When it was deleted: since then there is no access.'),
  finished_at: nullable(timestamp('When everything was erased; null until then.')),
  waits_for: nullable(
    Type.String({
      description: 'What has to happen before the erasing goes on; null if it goes on by itself.',
      examples: ['databases on node-1a2b3c4d'],
    }),
  ),
  deleted: Type.Record(Type.String(), Type.Integer({ minimum: 0 }), {
    description:
      'What was erased so far: rows of each table, and objects in the store of backups, without those that were removed before a process was killed.',
    examples: [{ api_keys: 4, events: 1200, stored_objects: 31 }],
  }),
})

const deletionOf = ({ id, kind, target_id, requested_at, finished_at, waits_for, deleted }: DeletionRow) => ({
  id,
  kind,
  target_id,
  requested_at: isoTime(requested_at),
  finished_at: finished_at && isoTime(finished_at),
  waits_for,
  deleted,
})

const accepted = (row: DeletionRow) => ({ status: 202, body: deletionOf(row) }) as const

export function organizationDeletionRoutes(deps: {
  holdOrganization: HoldOrganization
  enqueue: JobQueue['enqueue']
}): Route[] {
  return [
    route({
      method: 'POST',
      path: '/platform/v1/organizations/:orgId/deletion',
      needs: 'organizations:delete',
      // Its audit log is erased with it.
      audit: null,
      basis: here,
      tag: 'Organizations',
      summary: 'Delete the organization',
      description:
        'For good: once this is answered, every API key has stopped, no delivery begins any more, and the organization answers 404, on every node. Requests to webhooks that are in flight end within the time limit of an attempt. Its databases, backups, webhooks, history, members and invoices are erased after that. It takes a login token.',
      body: organizationDeletion,
      success: { status: 202, description: 'The deletion, which only operators can read again.', schema: deletion },
      async handler({ orgId, body: { confirm }, once }) {
        return deps.holdOrganization(orgId, (tx) =>
          once(tx, async () => accepted(await deleteOrganization(tx, deps, { orgId, confirm }))),
        )
      },
    }),
  ]
}

const deletionsPath = '/operator/v1/deletions'

/** `keyhook org delete` and `keyhook user delete` over HTTP. */
export function operatorDeletionRoutes(deps: {
  db: Database
  transact: Transact
  enqueue: JobQueue['enqueue']
}): Route[] {
  const { db, transact } = deps
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/organizations/:orgId/deletion',
      audit: null,
      basis: here,
      summary: 'Delete an organization',
      description:
        'For good, as its owners do it. Nothing but its id, the times and numbers of rows is kept. Read the deletion to see how far the erasing is.',
      body: organizationDeletion,
      success: { status: 202, description: 'The deletion.', schema: deletion },
      async handler({ params: { orgId }, body: { confirm }, once }) {
        return transact((tx) => once(tx, async () => accepted(await deleteOrganization(tx, deps, { orgId, confirm }))))
      },
    }),
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/users/:userId/deletion',
      audit: 'user.deleted',
      basis: here,
      summary: 'Delete a user',
      description:
        'Removes the user from every organization, and has the address, name, subject and sessions erased, and what audit logs say beside the id. Also for a user who was removed before. An organization whose only owner it was has none then. A second call answers the same deletion.',
      body: userDeletion,
      success: { status: 202, description: 'The deletion.', schema: deletion },
      async handler({ actor, params: { userId }, body: { confirm }, once }) {
        return transact((tx) => once(tx, async () => accepted(await deleteUser(tx, actor, { userId, confirm }))))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: deletionsPath,
      audit: null,
      basis: here,
      summary: 'List deletions',
      description: 'Every organization and user that was deleted, by id and time.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The deletions.', schema: Type.Array(deletion) },
      async handler() {
        return listById('del', deletionOf, (request) => listDeletions(db, request))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: `${deletionsPath}/:deletionId`,
      audit: null,
      basis: here,
      summary: 'Read a deletion',
      description: 'How far the erasing is, and what it has erased.',
      success: { status: 200, description: 'The deletion.', schema: deletion },
      async handler({ params: { deletionId } }) {
        const row = await findDeletion(db, deletionId)
        if (row === null) throw notFound(`there is no deletion ${deletionId}`)
        return { status: 200, body: deletionOf(row) }
      },
    }),
  ]
}
