import { execFileSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { sampleData } from '../../src/domain/event-samples.ts'
import { eventTypes } from '../../src/domain/event-types.ts'
import { createSigner } from '../../src/domain/signature.ts'
import { mintWebhookSecret } from '../../src/domain/webhook.ts'
import { blocksOf } from './blocks.ts'

const text = readFileSync(new URL('../../../../docs/receiving-webhooks.md', import.meta.url), 'utf8')
const blocks = blocksOf(text)
const secret = mintWebhookSecret()
const body = '{"id":"evt_1","type":"invoice.paid","data":{"name":"Žofie 🗝"}}'
const signature = createSigner(secret).body(Buffer.from(body))

test('the JavaScript in docs/receiving-webhooks.md accepts our signature and nothing else', async () => {
  const code = blocks.find((block) => block.language === 'js')!.text
  const { isFromKeyhook } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  expect(isFromKeyhook(Buffer.from(body), signature, secret)).toBe(true)
  expect(isFromKeyhook(Buffer.from(`${body} `), signature, secret)).toBe(false)
  expect(isFromKeyhook(Buffer.from(body), signature.toUpperCase(), secret)).toBe(false)
  expect(isFromKeyhook(Buffer.from(body), signature, mintWebhookSecret())).toBe(false)
  expect(isFromKeyhook(Buffer.from(body), undefined, secret)).toBe(false)
})

test('the table of events has every type, with the fields of its data', () => {
  const rows = [...text.matchAll(/^\| `(\w+\.\w+)` \| (.+) \|$/gm)].map(([, type, fields]) => [
    type,
    [...fields!.matchAll(/`(\w+)`/g)].map(([, field]) => field),
  ])
  expect(rows).toEqual(eventTypes.map((type) => [type, Object.keys(sampleData(type))]))
})

const hasOpenssl = (() => {
  try {
    execFileSync('openssl', ['version'])
    return true
  } catch {
    return false
  }
})()

test.skipIf(!hasOpenssl)('the shell command in docs/receiving-webhooks.md prints our signature', () => {
  const line = blocks.find((block) => block.language === 'sh')!.text
  const printed = execFileSync('bash', ['-c', line], { env: { ...process.env, BODY: body, SECRET: secret } }).toString()
  expect(printed.trim().endsWith(createHmac('sha256', secret).update(body).digest('hex'))).toBe(true)
})
