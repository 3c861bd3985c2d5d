import { readFileSync } from 'node:fs'
import type { ClientErrorCode, VerificationFailure } from '@keyhook/client'
import { expect, test } from 'vitest'
import { blocksOf } from '../../server/test/docs/blocks.ts'
import { call } from '../../server/test/kit/client.ts'
import { ownedApi } from '../../server/test/kit/owned-api.ts'

const api = ownedApi()
const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')

/** The first two cells of each row of the tables under these headings. */
const rowsOf = (heading: string) => {
  const section = page.split(/^#+ /m).find((text) => text.startsWith(heading))!
  return [...section.matchAll(/^\| `([\w.]+)` \| ([^|]+) \|/gm)].map(([, code, second]) => [code!, second!] as const)
}

test('docs/errors.md has every code of the client', () => {
  const codes: Record<ClientErrorCode, true> = {
    'client.network': true,
    'client.timeout': true,
    'client.aborted': true,
    'client.unexpected_response': true,
  }
  expect(rowsOf('Errors of the client').map(([code]) => code)).toEqual(Object.keys(codes))
})

test('docs/errors.md has every reason why a delivery is refused', () => {
  const reasons: Record<VerificationFailure, true> = {
    secret_missing: true,
    secret_malformed: true,
    body_parsed: true,
    header_missing: true,
    header_malformed: true,
    signature_mismatch: true,
    timestamp_too_old: true,
    timestamp_too_new: true,
    event_malformed: true,
  }
  expect(rowsOf('Deliveries that do not verify').map(([reason]) => reason)).toEqual(Object.keys(reasons))
})

test('the problem that docs/errors.md shows is what the server answers', async () => {
  const body = { url: 'http://example.com', event_types: ['invoice.paid'] }
  const url = `${api.url}/api/v1/organizations/${api.orgId}/webhooks`
  const reply = await call(url, { token: api.owner.token, body })
  expect(reply.body).toEqual(JSON.parse(blocksOf(page)[0]!.text))
})
