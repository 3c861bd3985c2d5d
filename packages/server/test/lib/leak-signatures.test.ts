import { describe, expect, test } from 'vitest'
import { isSignedReport, readLeakReportKeys } from '../../src/lib/leak-signatures.ts'
import { readConfig } from '../../src/settings/config.ts'
import { fileWith, githubKeyPair, signatureOf } from '../keys/support/leak-reports.ts'

/** The example of GitHub's own documentation of the programme, with one of its keys. */
const example = {
  key: '-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEsz9ugWDj5jK5ELBK42ynytbo38gP\nHzZFI03Exwz8Lh/tCfL3YxwMdLjB+bMznsanlhK0RwcGP3IDb34kQDIo3Q==\n-----END PUBLIC KEY-----\n',
  signature: 'MEUCIQDfLvT8/zM8F1aB3cM0ZwyeWF1m5YR6IhcUIv1OKQYL0wIgBZ5lVXB3gHK+dT8+xt0WgRVLqvsTPFiDO9QP/7eJ4yE=',
  body: '[{"token":"NMIfyYncKcRALEXAMPLE","type":"mycompany_api_token","url":"https://github.com/octocat/Hello-World/blob/12345600b9cbe38a219f39a9941c9319b600c002/foo/bar.txt","source":"content"}]',
}

test('a report that GitHub has signed is accepted, and no other bytes with its signature', () => {
  const keys = readLeakReportKeys(
    JSON.stringify({ public_keys: [{ key_identifier: 'x', ...example, is_current: false }] }),
  )
  const key = keys.get('x')!
  expect(isSignedReport(key, Buffer.from(example.body), example.signature)).toBe(true)
  expect(isSignedReport(key, Buffer.from(`${example.body}\n`), example.signature)).toBe(false)
  for (const signature of ['', 'x', example.signature.slice(4), 'A'.repeat(10_000)]) {
    expect(isSignedReport(key, Buffer.from(example.body), signature), signature).toBe(false)
  }
})

test('a signature by a pair of our own in that format is accepted with its key only', () => {
  const [one, other] = [githubKeyPair('one'), githubKeyPair('other')]
  const { public_keys } = one.published
  const keys = readLeakReportKeys(JSON.stringify({ public_keys: [...public_keys, ...other.published.public_keys] }))
  const signature = signatureOf(one.privateKey, 'body')
  expect(isSignedReport(keys.get('one')!, Buffer.from('body'), signature)).toBe(true)
  expect(isSignedReport(keys.get('other')!, Buffer.from('body'), signature)).toBe(false)
})

describe('the server does not start with a file of keys that', () => {
  const pem = githubKeyPair().privateKey.export({ type: 'pkcs8', format: 'pem' })
  test.each([
    ['is no JSON', 'nothing', 'is not valid JSON'],
    ['has no keys', { public_keys: [] }, 'has no list `public_keys` with keys'],
    ['is another document', [], 'has no list `public_keys` with keys'],
    ['has an entry without a key', { public_keys: [{ key_identifier: 'x' }] }, 'at place 1'],
    ['has something else for a key', { public_keys: [{ key_identifier: 'x', key: 'y' }] }, 'on the curve P-256'],
    ['has a private key', { public_keys: [{ key_identifier: 'x', key: pem }] }, 'on the curve P-256'],
  ])('%s', (_, content, problem) => {
    const file = fileWith(content)
    expect(() => readConfig({ KEYHOOK_LEAK_REPORT_KEYS_FILE: file })).toThrow(problem)
  })

  test('does not exist', () => {
    const missing = { KEYHOOK_LEAK_REPORT_KEYS_FILE: '/nowhere/keys.json' }
    expect(() => readConfig(missing)).toThrow('"/nowhere/keys.json" cannot be read (ENOENT)')
  })
})
