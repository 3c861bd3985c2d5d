import { isTransient, isUnavailable } from '../db/database.ts'
import type { OrgId } from '../kernel/ids.ts'
import { lockOrganization } from './organizations.ts'
import type { PublishingTransaction, Transact } from './publishing-transaction.ts'

/** A transaction in which nobody else counts, and then adds, what this organization has. */
export type HoldOrganization = <T>(orgId: OrgId, work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>

type Waiting = { run(): Promise<void>; reject(error: unknown): void }

/**
 * One at a time for each organization: the others would wait for it in the database, each with a connection that somebody
 * else could use. So however much one customer asks for at once, the other connections are for everybody else.
 */
export function createHoldOrganization(transact: Transact): HoldOrganization {
  /** Of organizations that are being held. */
  const queues = new Map<OrgId, Waiting[]>()

  async function runAll(orgId: OrgId, queue: Waiting[]): Promise<void> {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      try {
        await next.run()
      } catch (error) {
        next.reject(error)
        // Else each of them would wait as long as this one has, one after the other.
        if (isUnavailable(error) || isTransient(error)) for (const { reject } of queue.splice(0)) reject(error)
      }
    }
    queues.delete(orgId)
  }

  const hold: HoldOrganization = (orgId, work) =>
    transact(async (tx) => {
      // The work follows at once, and not after the answer: the organization is held for as long as all of it takes.
      const [locked, done] = [lockOrganization(tx, orgId), work(tx)]
      // What is said after the end of a transaction would be one of its own: nothing ends before both have.
      await Promise.allSettled([locked, done])
      await locked
      return done
    })

  return (orgId, work) =>
    new Promise((resolve, reject) => {
      const waiting = { run: () => hold(orgId, work).then(resolve), reject }
      const queue = queues.get(orgId)
      if (queue !== undefined) return void queue.push(waiting)
      const fresh = [waiting]
      queues.set(orgId, fresh)
      void runAll(orgId, fresh)
    })
}
