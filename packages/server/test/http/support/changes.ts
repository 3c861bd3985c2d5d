import { pino } from 'pino'
import { ensurePartitions } from '../../../src/delivery/retention-sql.ts'
import { createJobQueue, ensureQueues, nodeQueue } from '../../../src/jobs/queue.ts'
import { attemptUuid, type BackupId, type DatabaseId, newId, type WebhookId } from '../../../src/lib/ids.ts'
import { call, type Reply } from '../../kit/client.ts'
import type { OwnedApi } from '../../kit/owned-api.ts'

/** The target of a change (none if it was refused), and the details of its audit entry. */
type Changed = { target: string | undefined; details: Record<string, unknown> }
/** Prepares everything and returns the call that makes the change. */
type Recipe = (token: string) => Promise<() => Promise<Changed>>

export const hookBody = { url: 'https://example.com/', event_types: ['invoice.paid'] }
const node = 'of-no-machine'

/** No node runs jobs here, so their results are written into the tables. */
export async function preparePlatform({ db, target, url, orgId, owner }: OwnedApi): Promise<void> {
  await ensurePartitions(db, Date.now())
  const queue = createJobQueue({ target, supervise: false, log: pino({ level: 'silent' }) })
  await ensureQueues(await queue.boss(), nodeQueue(node))
  await queue.close()
  // The first one opens the queue of the server, which writes to the database.
  await call(`${url}/platform/v1/organizations/${orgId}/databases`, { token: owner.token, body: { name: 'first' } })
}

/** Headers that every POST sends, and the answer to the last one. */
export type Wire = { headers?: Record<string, string>; last?: Reply }

/** One call of every route by which a member changes something. */
export function changesOf(api: OwnedApi, wire: Wire = {}): Record<string, Recipe> {
  const published = () => `${api.url}/api/v1/organizations/${api.orgId}`
  const platform = () => `${api.url}/platform/v1/organizations/${api.orgId}`
  const post = async <T>(url: string, token: string, body?: object): Promise<Reply<T>> => {
    const { headers = {} } = wire
    const reply = await call<T>(url, { token, method: 'POST', headers, ...(body && { body }) })
    wire.last = reply
    return reply
  }
  const remove = async (url: string, token: string, target: string): Promise<Changed> => {
    await call(`${url}/${target}`, { token, method: 'DELETE' })
    return { target, details: {} }
  }

  type Made = { id: string; key_prefix: string }
  const key = async (token: string) => (await post<Made>(`${published()}/api-keys`, token, { name: 'audited' })).body
  const webhook = async (token: string) => (await post<Made>(`${published()}/webhooks`, token, hookBody)).body

  async function database(): Promise<DatabaseId> {
    const id = newId('db')
    await api.db`
      insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
      values (${api.orgId}, ${id}, 'shop', 'available', ${node}, '127.0.0.1', 1, ${api.owner.userId})`
    return id
  }

  async function backup(): Promise<BackupId> {
    const id = newId('bak')
    await api.db`
      insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256)
      values (${api.orgId}, ${id}, ${await database()}, ${node}, 'requested', 'completed', 1, 'x')`
    return id
  }

  async function delivery(webhookId: string) {
    const id = newId('dlv')
    await api.db`
      insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
      select org_id, lane_id, ${attemptUuid(id)}, 1, 1, 'failed', now(), ''
      from keyhook.webhooks where org_id = ${api.orgId} and id = ${webhookId as WebhookId}`
    return id
  }

  return {
    'POST /api/v1/organizations/:orgId/api-keys': async (token) => async () => {
      const { id, key_prefix } = await key(token)
      return { target: id, details: { name: 'audited', key_prefix } }
    },
    'DELETE /api/v1/organizations/:orgId/api-keys/:keyId': async (token) => {
      const { id } = await key(api.owner.token)
      return () => remove(`${published()}/api-keys`, token, id)
    },
    'POST /platform/v1/organizations/:orgId/api-keys/:keyId/revoke': async (token) => {
      const { id } = await key(api.owner.token)
      return async () => {
        await post(`${platform()}/api-keys/${id}/revoke`, token, { descendants: true })
        return { target: id, details: {} }
      }
    },
    'POST /platform/v1/organizations/:orgId/api-keys': async (token) => async () => {
      const body = { name: 'audited', permissions: ['keys:read'] }
      const { id, key_prefix } = (await post<Made>(`${platform()}/api-keys`, token, body)).body
      return { target: id, details: { ...body, key_prefix } }
    },
    'PATCH /platform/v1/organizations/:orgId/api-keys/:keyId': async (token) => {
      const { id } = await key(api.owner.token)
      return async () => {
        await call(`${platform()}/api-keys/${id}`, { token, method: 'PATCH', body: { name: 'renamed' } })
        return { target: id, details: { name: 'renamed' } }
      }
    },
    'POST /platform/v1/organizations/:orgId/api-keys/:keyId/rotate': async (token) => {
      const { id } = await key(api.owner.token)
      return async () => {
        const made = (await post<Made>(`${platform()}/api-keys/${id}/rotate`, token, { overlap_seconds: 60 })).body
        return { target: id, details: { successor: made.id, key_prefix: made.key_prefix, overlap_seconds: 60 } }
      }
    },
    'POST /platform/v1/organizations/:orgId/service-members': async (token) => async () => {
      const body = { name: 'audited', role: 'member' }
      const member = await post<{ user_id: string }>(`${platform()}/service-members`, token, body)
      return { target: member.body.user_id, details: body }
    },
    'POST /platform/v1/organizations/:orgId/service-members/:userId/api-keys': async (token) => {
      const member = { name: 'audited', role: 'member' }
      const url = `${platform()}/service-members`
      const { user_id } = (await call<{ user_id: string }>(url, { token: api.owner.token, body: member })).body
      return async () => {
        const { id, key_prefix } = (await post<Made>(`${url}/${user_id}/api-keys`, token, { name: 'audited' })).body
        return { target: id, details: { name: 'audited', key_prefix, acts_as: user_id } }
      }
    },
    'PUT /platform/v1/organizations/:orgId/webhook-suspension': async (token) => {
      await api.db`update keyhook.organizations set suspend_after_hours = 6 where id = ${api.orgId}`
      return async () => {
        await call(`${platform()}/webhook-suspension`, { token, method: 'PUT', body: { after_hours: null } })
        return { target: api.orgId, details: { from: 6, to: null } }
      }
    },
    'PUT /platform/v1/organizations/:orgId/key-lifetime': async (token) => {
      await api.db`update keyhook.organizations set key_days_max = 30 where id = ${api.orgId}`
      return async () => {
        await call(`${platform()}/key-lifetime`, { token, method: 'PUT', body: { days_max: null } })
        return { target: api.orgId, details: { from: 30, to: null } }
      }
    },
    'POST /api/v1/organizations/:orgId/webhooks': async (token) => async () => {
      const { id } = await webhook(token)
      return { target: id, details: hookBody }
    },
    'DELETE /api/v1/organizations/:orgId/webhooks/:webhookId': async (token) => {
      const { id } = await webhook(api.owner.token)
      return () => remove(`${published()}/webhooks`, token, id)
    },
    'PATCH /platform/v1/organizations/:orgId/webhooks/:webhookId': async (token) => {
      const { id } = await webhook(api.owner.token)
      return async () => {
        const changed = {
          description: 'Audited',
          event_types: ['backup.failed'],
          url: 'https://example.com/b',
          rate_limit: 5,
        }
        await call(`${platform()}/webhooks/${id}`, { token, method: 'PATCH', body: changed })
        return { target: id, details: changed }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/pause': async (token) => {
      const { id } = await webhook(api.owner.token)
      const until = new Date(Date.now() + 60_000).toISOString()
      return async () => {
        await post(`${platform()}/webhooks/${id}/pause`, token, { until })
        return { target: id, details: { until } }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/resume': async (token) => {
      const { id } = await webhook(api.owner.token)
      await post(`${platform()}/webhooks/${id}/pause`, api.owner.token)
      return async () => {
        await post(`${platform()}/webhooks/${id}/resume`, token)
        return { target: id, details: {} }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/rotate-secret': async (token) => {
      const { id } = await webhook(api.owner.token)
      return async () => {
        await post(`${platform()}/webhooks/${id}/rotate-secret`, token)
        return { target: id, details: { overlap_seconds: 2_592_000 } }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/switch-secret': async (token) => {
      const { id } = await webhook(api.owner.token)
      await post(`${platform()}/webhooks/${id}/rotate-secret`, api.owner.token)
      return async () => {
        await post(`${platform()}/webhooks/${id}/switch-secret`, token)
        return { target: id, details: { overlap_seconds: 86_400 } }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/test': async (token) => {
      const { id } = await webhook(api.owner.token)
      return async () => {
        await post(`${platform()}/webhooks/${id}/test`, token, { event_type: 'backup.failed' })
        return { target: id, details: { event_type: 'backup.failed' } }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/deliveries/:deliveryId/redeliver': async (token) => {
      const { id } = await webhook(api.owner.token)
      const attempt = await delivery(id)
      return async () => {
        await post(`${platform()}/webhooks/${id}/deliveries/${attempt}/redeliver`, token)
        return { target: attempt, details: { webhook_id: id } }
      }
    },
    'POST /platform/v1/organizations/:orgId/webhooks/:webhookId/recover': async (token) => {
      const { id } = await webhook(api.owner.token)
      const stretch = { since: '2026-01-01T00:00:00.000Z', until: '2026-02-01T00:00:00.000Z' }
      return async () => {
        const { body } = await post<Made>(`${platform()}/webhooks/${id}/recover`, token, stretch)
        return { target: id, details: { ...stretch, recovery: body.id } }
      }
    },
    'PATCH /platform/v1/organizations/:orgId': async (token) => {
      const [before] = await api.db<{ name: string }[]>`select name from keyhook.organizations where id = ${api.orgId}`
      const name = `renamed ${newId('org')}`
      return async () => {
        await call(platform(), { token, method: 'PATCH', body: { name } })
        return { target: api.orgId, details: { from: before!.name, to: name } }
      }
    },
    'PUT /platform/v1/organizations/:orgId/members/:userId': async (token) => {
      const { userId } = await api.person([{ orgId: api.orgId, role: 'member' }])
      return async () => {
        await call(`${platform()}/members/${userId}`, { token, method: 'PUT', body: { role: 'admin' } })
        return { target: userId, details: { from: 'member', to: 'admin' } }
      }
    },
    'DELETE /platform/v1/organizations/:orgId/members/:userId': async (token) => {
      const { userId } = await api.person([{ orgId: api.orgId, role: 'member' }])
      return async () => ({ ...(await remove(`${platform()}/members`, token, userId)), details: { role: 'member' } })
    },
    'POST /platform/v1/organizations/:orgId/invitations': async (token) => async () => {
      const invited = { email: 'grace@example.com', role: 'member' }
      const { body } = await post<Made>(`${platform()}/invitations`, token, invited)
      return { target: body.id, details: invited }
    },
    'DELETE /platform/v1/organizations/:orgId/invitations/:invitationId': async (token) => {
      const invited = { email: 'grace@example.com', role: 'member' }
      const { body } = await post<Made>(`${platform()}/invitations`, api.owner.token, invited)
      return async () => ({ ...(await remove(`${platform()}/invitations`, token, body.id)), details: invited })
    },
    'POST /platform/v1/organizations/:orgId/databases': async (token) => async () => {
      const { body } = await post<Made>(`${platform()}/databases`, token, { name: 'shop' })
      return { target: body.id, details: { name: 'shop' } }
    },
    'DELETE /platform/v1/organizations/:orgId/databases/:databaseId': async (token) => {
      const id = await database()
      return () => remove(`${platform()}/databases`, token, id)
    },
    'POST /platform/v1/organizations/:orgId/databases/:databaseId/backups': async (token) => {
      const id = await database()
      return async () => {
        const { body } = await post<Made>(`${platform()}/databases/${id}/backups`, token)
        return { target: body.id, details: { database_id: id } }
      }
    },
    'PUT /platform/v1/organizations/:orgId/databases/:databaseId/backup-schedule': async (token) => {
      const id = await database()
      const schedule = { every_hours: 6, keep: 3 }
      return async () => {
        await call(`${platform()}/databases/${id}/backup-schedule`, { token, method: 'PUT', body: schedule })
        return { target: id, details: schedule }
      }
    },
    'POST /platform/v1/organizations/:orgId/backups/:backupId/cancel': async (token) => {
      const id = await backup()
      await api.db`update keyhook.backups set status = 'running' where id = ${id}`
      return async () => {
        await call(`${platform()}/backups/${id}/cancel`, { token, method: 'POST' })
        return { target: id, details: {} }
      }
    },
    'DELETE /platform/v1/organizations/:orgId/backups/:backupId': async (token) => {
      const id = await backup()
      return () => remove(`${platform()}/backups`, token, id)
    },
    'POST /platform/v1/organizations/:orgId/databases/:databaseId/restore': async (token) => {
      const id = await backup()
      const to = '2026-01-31T12:00:00.000Z'
      const [source] = await api.db<[{ database_id: string }]>`
        update keyhook.backups set start_lsn = '0/1', stop_lsn = '0/2', stopped_at = ${to}
        where org_id = ${api.orgId} and id = ${id} returning database_id`
      await api.db`
        insert into keyhook.wal_archives (org_id, database_id, from_lsn, until_lsn, committed_lsn, archived_until)
        values (${api.orgId}, ${source.database_id}, '0/0', '0/3', '0/3', ${to}::timestamptz + interval '1 hour')`
      return async () => {
        const asked = { name: 'then', to }
        const { body } = await post<{ restore?: Made; database?: Made }>(
          `${platform()}/databases/${source.database_id}/restore`,
          token,
          asked,
        )
        const details = { backup_id: id, database_id: body.database?.id, ...asked }
        return { target: body.restore?.id, details }
      }
    },
    'POST /platform/v1/organizations/:orgId/backups/:backupId/restore': async (token) => {
      const id = await backup()
      return async () => {
        const asked = { name: 'again' }
        const { body } = await post<{ restore?: Made; database?: Made }>(
          `${platform()}/backups/${id}/restore`,
          token,
          asked,
        )
        const details = { backup_id: id, database_id: body.database?.id, ...asked }
        return { target: body.restore?.id, details }
      }
    },
  }
}
