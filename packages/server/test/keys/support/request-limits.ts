import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import type { Database } from '../../../src/db/database.ts'
import { createRequestLimits, type RequestLimit } from '../../../src/keys/request-limits.ts'
import { Fault } from '../../../src/lib/faults.ts'
import { type KeyId, newId, type OrgId } from '../../../src/lib/ids.ts'
import { call } from '../../kit/client.ts'
import { startApiForTest, type TestApi } from '../../kit/installation.ts'

type Problem = { code: string; detail: string }

/** A limit counts by the minute: what a test sends in `seconds` must not be cut by the end of one. */
export async function withinOneMinute(db: Database, seconds: number): Promise<void> {
  const [now] = await db<{ second: number }[]>`select date_part('second', clock_timestamp())::float8 as second`
  if (now!.second > 59 - seconds) await sleep((60.1 - now!.second) * 1_000)
}

export async function startLimited(environment: Record<string, string>) {
  const api = await startApiForTest({ KEYHOOK_TRUSTED_PROXIES: '127.0.0.1', ...environment })
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const create = async (body: object = {}) => {
    const url = `${api.url}/platform/v1/organizations/${orgId}/api-keys`
    const made = await call<{ id: KeyId; api_key: string }>(url, { token: owner.token, body: { name: 'ci', ...body } })
    expect(made.status, made.text).toBe(201)
    return made.body
  }
  const list = (token: string, from?: string) =>
    call<Problem>(`${api.url}/api/v1/organizations`, {
      token,
      headers: from === undefined ? {} : { 'x-forwarded-for': from },
    })
  const statuses = async (token: string, requests: number) => {
    const all: number[] = []
    for (let sent = 0; sent < requests; sent++) all.push((await list(token)).status)
    return all
  }
  return { api, orgId, owner, create, list, statuses }
}

/** What a process counts with, beside its requests. */
export function startLimits(
  api: Pick<TestApi, 'db'>,
  limit: Partial<RequestLimit>,
  onAway: (error: unknown) => void = () => {},
) {
  const limits = createRequestLimits({ db: api.db, limit: { perKey: null, perOrganization: null, ...limit }, onAway })
  onTestFinished(() => limits.close())
  return (orgId: OrgId, keyId: KeyId): boolean => {
    try {
      limits.count(orgId, keyId)
      return true
    } catch (error) {
      if (error instanceof Fault && error.code === 'request.rate_limited') return false
      throw error
    }
  }
}

export const someIds = () => [newId('org'), newId('key')] as const
