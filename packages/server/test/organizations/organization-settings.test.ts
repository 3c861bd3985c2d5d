import { expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()
const path = '/platform/v1/organizations/{org_id}'

const rename = (name: unknown, token = api.owner.token) =>
  api.documented.call<{ name: string }>('PATCH', path, `${api.url}${path.replace('{org_id}', api.orgId)}`, {
    token,
    body: { name },
  })

const nameShown = async () =>
  (await call<{ name: string }[]>(`${api.url}/api/v1/organizations`, { token: api.owner.token })).body[0]!.name

const renamings = () => api.db<{ details: object }[]>`
  select details from keyhook.audit_entries where action = 'organization.renamed' and org_id = ${api.orgId} order by id`

test('an owner renames the organization, and the audit log has both names', async () => {
  const before = await nameShown()
  expect(await rename('Globex')).toMatchObject({ status: 200, body: { id: api.orgId, name: 'Globex' } })
  expect(await nameShown()).toBe('Globex')
  // Again: nothing changes.
  expect((await rename('Globex')).status).toBe(200)
  expect(await renamings()).toEqual([{ details: { from: before, to: 'Globex' } }])
})

test('nobody else does, and no other name than a label is accepted', async () => {
  const before = await nameShown()
  for (const role of ['admin', 'member'] as const) {
    const person = await api.person([{ orgId: api.orgId, role }])
    expect((await rename('Taken', person.token)).status).toBe(403)
  }
  expect((await rename('Taken', (await api.person()).token)).status).toBe(404)
  for (const name of ['', '  ', 'a\u0000b', 'x'.repeat(256), 7, null]) expect((await rename(name)).status).toBe(422)
  expect(await nameShown()).toBe(before)
})
