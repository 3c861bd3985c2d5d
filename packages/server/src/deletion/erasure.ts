import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database, Transaction } from '../db/database.ts'
import { traceStep } from '../jobs/worker.ts'
import type { DeletionId, OrgId, UserId } from '../lib/ids.ts'
import { eraseUser } from '../organizations/users.ts'
import {
  type DueDeletion,
  deleteOrganizationRow,
  deleteUserRow,
  type Erased,
  nodesWithDatabases,
  organizationsAfter,
  postponeDeletion,
  recordStep,
  sum,
  takeDeletion,
  usersOfOrganization,
} from './sql.ts'
import { erase, organizationTables, userMentions, userTables } from './tables.ts'

const checkMs = 1_000

/** About a tenth of a second. */
export const rowsPerStep = 5_000
const usersPerStep = 100
const organizationsPerStep = 100

/** What a step has done, and whether it was the last one. `waitsFor`: what has to happen elsewhere before the next one. */
type Step = { erased: Erased; waitsFor?: string; isFinished?: true; afterOrg?: string }

type Deps = { db: Database; signal: AbortSignal; log: Logger }

/**
 * Erases what deleted organizations and users have left. A step is one transaction, which also notes the rows that it erased: after a
 * kill the next process goes on where the last commit was. Several processes take different deletions.
 */
export async function watchDeletions({ db, signal, log }: Deps): Promise<void> {
  while (!signal.aborted) {
    const didSomething = await eraseNext(db, log).catch((err) => {
      log.warn({ err }, 'deletion.step_failed')
      return false
    })
    if (!didSomething) await sleep(checkMs, undefined, { signal }).catch(() => {})
  }
}

/** One step of the deletion that is due. False if there is none. */
export async function eraseNext(db: Database, log: Logger): Promise<boolean> {
  let taken: DeletionId | undefined
  try {
    return await db.begin(async (tx) => {
      const deletion = await takeDeletion(tx)
      if (deletion === null) return false
      taken = deletion.id
      traceStep('deletion.erasing', deletion.id)
      const step = await (deletion.kind === 'organization' ? organizationStep(tx, deletion) : userStep(tx, deletion))
      const deleted = sum(deletion.deleted, step.erased)
      const { waitsFor = null, isFinished = false, afterOrg = deletion.after_org } = step
      await recordStep(tx, deletion.id, { deleted, waitsFor, isFinished, afterOrg })
      traceStep(isFinished ? 'deletion.finishing' : 'deletion.settling', deletion.id)
      if (isFinished) log.info({ deletionId: deletion.id, targetId: deletion.target_id, deleted }, 'deletion.finished')
      return true
    })
  } catch (error) {
    if (taken !== undefined) await postponeDeletion(db, taken)
    throw error
  }
}

/** Begins with the first table again each time: what arrives late, from transactions of before the deletion, is found too. */
async function organizationStep(tx: Transaction, { target_id, older_open }: DueDeletion): Promise<Step> {
  const orgId = target_id as OrgId
  const erased: Erased = {}
  let left = rowsPerStep
  for (const one of organizationTables) {
    // Until nothing is found: of a key and the keys that it has made, each pass erases the last generation.
    for (let rows = -1; rows !== 0; ) {
      rows = await erase(tx, one, [orgId, left])
      Object.assign(erased, sum(erased, { [one.table]: rows }))
      left -= rows
      if (left <= 0) return { erased }
    }
  }
  const nodes = await nodesWithDatabases(tx, orgId)
  if (nodes.length > 0) return { erased, waitsFor: `databases on ${nodes.join(', ')}` }
  const users = await usersOfOrganization(tx, orgId, usersPerStep)
  for (const userId of users) {
    for (const one of userTables) await eraseAll(tx, one, [userId])
    await deleteUserRow(tx, userId)
  }
  Object.assign(erased, sum(erased, { users: users.length }))
  if (users.length === usersPerStep) return { erased }
  if (older_open) return { erased, waitsFor: 'changes that began before the deletion' }
  await deleteOrganizationRow(tx, orgId)
  return { erased, isFinished: true }
}

async function userStep(tx: Transaction, { target_id, older_open, after_org }: DueDeletion): Promise<Step> {
  const userId = target_id as UserId
  const erased: Erased = {}
  for (const one of userTables) {
    Object.assign(erased, sum(erased, { [one.table]: await eraseAll(tx, one, [userId]) }))
  }
  if (older_open) return { erased, waitsFor: 'changes that began before the deletion' }
  const organizations = await organizationsAfter(tx, after_org, organizationsPerStep)
  let afterOrg = after_org
  let left = rowsPerStep
  for (const orgId of organizations) {
    for (const one of userMentions) {
      const rows = await erase(tx, one, [orgId, userId, left])
      Object.assign(erased, sum(erased, { [one.table]: rows }))
      left -= rows
      // The next step begins with this organization again.
      if (left <= 0) return { erased, afterOrg }
    }
    afterOrg = orgId
  }
  if (organizations.length === organizationsPerStep) return { erased, afterOrg }
  await eraseUser(tx, userId)
  return { erased: sum(erased, { users: 1 }), isFinished: true, afterOrg }
}

async function eraseAll(tx: Transaction, one: (typeof userTables)[number], values: readonly string[]): Promise<number> {
  let all = 0
  for (let rows = rowsPerStep; rows === rowsPerStep; all += rows) rows = await erase(tx, one, [...values, rowsPerStep])
  return all
}
