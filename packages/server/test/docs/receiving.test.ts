import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { eventTypes, sampleData } from '../../src/delivery/events.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

const text = readFileSync(new URL('../../../../docs/receiving-webhooks.md', import.meta.url), 'utf8')

test('the table of events has every type, with the fields of its data', () => {
  const rows = [...text.matchAll(/^\| `(\w+\.\w+)` \| (.+) \|$/gm)].map(([, type, fields]) => [
    type,
    [...fields!.matchAll(/`(\w+)`/g)].map(([, field]) => field),
  ])
  expect(rows).toEqual(eventTypes.map((type) => [type, Object.keys(sampleData(type))]))
})

const settings = ownedApi()

test('the commands that pause, limit and rotate do what the page says', async () => {
  const { url, orgId, owner } = settings
  const hook = await call<{ id: string }>(`${url}/api/v1/organizations/${orgId}/webhooks`, {
    token: owner.token,
    body: { url: 'https://example.com/', event_types: ['invoice.paid'] },
  })
  const commands = [...text.matchAll(/```sh curl\n(.*?)```/gs)].map(([, block]) => block!)
  expect(commands).toHaveLength(5)
  const environment = {
    KEYHOOK_URL: url,
    ORG: orgId,
    WEBHOOK: hook.body.id,
    TOKEN: owner.token,
    PATH: process.env.PATH,
  }
  const run = async (block: string) => {
    const { stdout } = await promisify(execFile)('sh', ['-c', block], { env: environment })
    return stdout.split(/(?<=\})(?=\{)/).map((answer) => JSON.parse(answer))
  }
  expect(await run(commands[0]!)).toMatchObject([{ status: 'paused' }, { status: 'active' }])
  expect(await run(commands[1]!)).toMatchObject([{ rate_limit: 50 }])
  expect(await run(commands[2]!)).toMatchObject([{ secret_rotation: { switched: false } }])
  expect(await run(commands[3]!)).toMatchObject([{ event_id: expect.stringMatching(/^evt_/) }])
  expect(await run(commands[4]!)).toMatchObject([{ secret_rotation: { switched: true } }])
})
