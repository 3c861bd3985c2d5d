import { afterAll, beforeAll } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { type Documented, readDocumented } from './documented.ts'
import { type Person, startApi, type TestApi } from './installation.ts'

export type OwnedApi = TestApi & { documented: Documented; orgId: OrgId; owner: Person }

/** For a whole test file: a running API, its OpenAPI document, and one organization with its owner. Set before the first test. */
export function ownedApi(environment: Record<string, string> = {}): OwnedApi {
  const owned = {} as OwnedApi
  beforeAll(async () => {
    const api = await startApi(environment)
    const orgId = await api.organization()
    const owner = await api.person([{ orgId, role: 'owner' }])
    Object.assign(owned, api, { documented: await readDocumented(api.url), orgId, owner })
  })
  afterAll(() => owned.close())
  return owned
}
