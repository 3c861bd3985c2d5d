import { setTimeout as sleep } from 'node:timers/promises'
import { call, type Reply } from '../../kit/client.ts'
import type { Fleet, Organization } from './fleet.ts'
import type { History } from './history.ts'

/** Between two requests of one caller; the machine has other work too. */
const pauseMs = 20
const retryMs = 50
const liveKeysMax = 8

type Key = History['keys'][number] & { secret: string; organization: Organization }
type Load = { stop(): Promise<void>; useEveryKey(): Promise<void> }

/**
 * Callers that publish events, create, use and revoke keys, until they are stopped. Like careful clients they repeat what was
 * answered 503, under the same id. All that they are told goes into the history.
 */
export function startLoad({ apis, operator, organizations, history }: Fleet): Load {
  let isStopping = false
  let turn = 0
  const live: Key[] = []
  const revoked: Key[] = []

  /** The nodes in turns. Null: 503, so nothing is known. */
  async function ask<T>(path: string, options: Parameters<typeof call>[1]): Promise<Reply<T> | null> {
    const url = apis[turn++ % apis.length]!
    const reply = await call<T>(`${url}${path}`, options).catch((error: Error) => {
      history.unexpected.push(`${path}: ${error.message} ${String(error.cause ?? '')}`)
      return null
    })
    return reply?.status === 503 ? null : reply
  }

  /** Repeats the request until it has an answer; null if that is not the wanted one, or the load ends first. */
  async function repeatUntil<T>(status: number, path: string, options: Parameters<typeof call>[1]) {
    while (!isStopping) {
      const reply = await ask<T>(path, options)
      if (reply?.status === status) return reply
      if (reply !== null) {
        history.unexpected.push(`${path}: ${reply.status} ${reply.text}`)
        return null
      }
      await sleep(retryMs)
    }
    return null
  }

  async function publishEvents(name: string, { orgId }: Organization): Promise<void> {
    for (let n = 0; !isStopping; n++) {
      const id = `${name}-${n}`
      const body = { organization_id: orgId, type: 'database.created', data: { id }, id }
      const sentAtMs = performance.now()
      const reply = await repeatUntil(202, '/operator/v1/events', { token: operator, body })
      if (reply !== null) history.accepted.push({ orgId, eventId: id, sentAtMs, atMs: performance.now() })
      await sleep(pauseMs)
    }
  }

  const keysOf = ({ orgId }: Organization) => `/api/v1/organizations/${orgId}/api-keys`

  async function createAndRevokeKeys(organization: Organization): Promise<void> {
    const own: Key[] = []
    while (!isStopping) {
      const made = await repeatUntil<{ id: string; api_key: string }>(201, keysOf(organization), {
        token: organization.owner,
        body: { name: 'load' },
      })
      if (made === null) continue
      const key = { id: made.body.id, revokeSentAtMs: null, revokedAtMs: null, secret: made.body.api_key, organization }
      history.keys.push(key)
      own.push(key)
      live.push(key)
      if (own.length > liveKeysMax / 2) await revoke(own.shift()!)
      await sleep(pauseMs)
    }
  }

  async function revoke(key: Key): Promise<void> {
    const { organization, id } = key
    key.revokeSentAtMs = performance.now()
    live.splice(live.indexOf(key), 1)
    const path = `${keysOf(organization)}/${id}`
    const reply = await repeatUntil(204, path, { method: 'DELETE', token: organization.owner })
    if (reply === null) return
    key.revokedAtMs = performance.now()
    revoked.push(key)
  }

  async function use({ id, secret }: Key): Promise<boolean> {
    const sentAtMs = performance.now()
    const reply = await ask('/api/v1/organizations', { token: secret })
    if (reply === null) return false
    const isKnown = reply.status === 200 || reply.status === 401
    const isAccepted = reply.status === 200
    if (!isKnown) history.unexpected.push(`use of ${id}: ${reply.status} ${reply.text}`)
    else history.uses.push({ keyId: id, sentAtMs, answeredAtMs: performance.now(), isAccepted })
    return isKnown
  }

  /** The newest revoked ones first: a late standby or an old server would still know those. */
  async function useKeys(): Promise<void> {
    for (let n = 0; !isStopping; n++) {
      const key = n % 2 === 0 ? revoked.at(-1 - (n % 10)) : live[n % liveKeysMax]
      if (key !== undefined) await use(key)
      await sleep(pauseMs)
    }
  }

  const callers = organizations.flatMap((organization, i) => [
    publishEvents(`x${i}`, organization),
    publishEvents(`y${i}`, organization),
    createAndRevokeKeys(organization),
    useKeys(),
  ])
  return {
    async stop() {
      isStopping = true
      await Promise.all(callers)
    },
    /** Each of them at every API. */
    async useEveryKey() {
      for (const key of [...live, ...revoked]) for (const _ of apis) while (!(await use(key))) await sleep(retryMs)
    },
  }
}
