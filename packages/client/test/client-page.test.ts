import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@keyhook/client'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createSigner } from '../../server/src/delivery/sender/senders.ts'
import { mintWebhookSecret } from '../../server/src/webhooks/rules.ts'
import { blocksOf } from '../../server/test/docs/blocks.ts'
import { ownedApi } from '../../server/test/kit/owned-api.ts'
import '../../server/test/kit/server-limits.ts'

/*
 * Runs the code of docs/client.md in a folder where the client is installed.
 */

const api = ownedApi()
const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(join(root, 'docs/client.md'), 'utf8')
const run = promisify(execFile)
const node = [process.execPath, '--conditions=@keyhook/source'] as const
let folder: string
let environment: Record<string, string>

const codeOf = (...kinds: string[]) =>
  blocksOf(page)
    .filter(({ language, about }) => /^[jt]s$/.test(language) && kinds.includes(about))
    .map(({ text }) => text)
    .join('\n')

async function program(name: string, code: string): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, code)
  return file
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-page-'))
  await mkdir(join(folder, 'node_modules/@keyhook'), { recursive: true })
  await symlink(join(root, 'packages/client'), join(folder, 'node_modules/@keyhook/client'))
  await symlink(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'))
  environment = {
    KEYHOOK_URL: api.url,
    KEYHOOK_TOKEN: api.owner.token,
    KEYHOOK_ORG: api.orgId,
    OPERATOR_TOKEN: await api.operatorToken(),
  }
})
afterAll(() => rm(folder, { recursive: true }))

test('the code of docs/client.md runs in the order of the page', async () => {
  const end = 'console.log(JSON.stringify({ items: items.length, next, last, active, sub, role }))'
  const file = await program('page.mjs', `${codeOf('run', 'operator')}\n${end}`)
  const { stdout } = await run(node[0], [node[1], file], { env: environment })
  const lines = stdout.trim().split('\n')
  expect(lines[0]).toMatch(/^kh_\w{8} ci /)
  expect(lines.slice(1, 4)).toEqual([
    'request.invalid 422',
    '/url must use the https:// scheme',
    'missed an event: reconcile',
  ])
  const result = { next: null, last: 0, active: true, sub: api.owner.userId, role: 'owner' }
  expect(JSON.parse(lines[4]!)).toMatchObject(result)
})

test('the stream of docs/client.md prints events as they happen', async () => {
  const file = await program('stream.mjs', `${codeOf('run').split('\nconst { api_key')[0]}\n${codeOf('stream')}`)
  const child = spawn(node[0], [node[1], file], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const [printed] = await Promise.race([once(child.stdout.setEncoding('utf8'), 'data'), once(child, 'exit')])
  child.kill()
  await once(child, 'exit')
  const client = createClient({ url: api.url, token: api.owner.token, organization: api.orgId })
  const [first] = await client.events.list({ order: 'asc', limit: 1 }).toArray()
  expect(printed).toBe(`${first!.sequence} invoice.paid { invoice: '2026-0042' }\n`)
})

test('the receiver of docs/client.md compiles, and accepts a signed delivery', async () => {
  const file = await program('receive.ts', codeOf('verify'))
  const options: ts.CompilerOptions = {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.NodeNext,
    customConditions: ['@keyhook/source'],
    types: ['node'],
  }
  const diagnostics = ts.getPreEmitDiagnostics(ts.createProgram([file], options))
  expect(diagnostics.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([])

  const secret = mintWebhookSecret()
  const body = '{"id":"evt_1","type":"invoice.paid","timestamp":"","data":{"total_minor":1488,"currency":"EUR"}}'
  const seconds = Math.floor(Date.now() / 1_000)
  const signature = createSigner(secret).standard('evt_1', seconds, Buffer.from(body))
  const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': String(seconds), 'webhook-signature': signature }
  const call = `import { receive } from './receive.ts'
const response = await receive(new Request('https://example.com', { method: 'POST', ...${JSON.stringify({ headers, body })} }))
console.log(response.status)`
  const { stdout } = await run(node[0], [node[1], await program('call.mjs', call)], { env: { WEBHOOK_SECRET: secret } })
  expect(stdout).toBe('1488 EUR\n204\n')
})
