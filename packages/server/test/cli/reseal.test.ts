import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { call } from '../kit/client.ts'
import { keyhookHere } from '../kit/processes.ts'
import { commandsBeside } from './support/commands-beside.ts'

test('secrets that were sealed under the old master key can be opened with the new one alone', async () => {
  const { api, environment, close } = await commandsBeside()
  onTestFinished(close)
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const subscribe = () =>
    call<{ id: string; secret: string }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, {
      token,
      body: { url: 'https://example.com/', event_types: ['database.created'] },
    })
  const webhook = await subscribe()
  const fresh = randomBytes(32)
  const reseal = (masterKey: string) =>
    keyhookHere(['secrets', 'reseal', '--json'], { ...environment, KEYHOOK_MASTER_KEY: masterKey })

  const both = `${fresh.toString('base64')},${environment.KEYHOOK_MASTER_KEY}`
  expect(JSON.parse((await reseal(both)).stdout)).toEqual({ resealed: 1, archives_under_older_keys: 0 })
  const [row] = await api.db`select secret_key_id, secret_box from keyhook.webhooks where id = ${webhook.body.id}`
  const sealed = { keyId: row!.secret_key_id, box: row!.secret_box }
  expect(createMasterKeys([fresh]).open(sealed, webhook.body.id)).toBe(webhook.body.secret)
  expect(JSON.parse((await reseal(both)).stdout)).toEqual({ resealed: 0, archives_under_older_keys: 0 })

  // The server has sealed one under the old key meanwhile.
  await subscribe()
  const unlisted = await reseal(fresh.toString('base64'))
  expect(unlisted).toMatchObject({ code: 2, stdout: '' })
  expect(unlisted.stderr).toMatch(/^.*List the old key too: KEYHOOK_MASTER_KEY=<new>,<old>\n$/)
})
