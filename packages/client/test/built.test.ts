import { execFile } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownedApi } from '../../server/test/kit/owned-api.ts'
import { vectorNamed } from './support/vectors.ts'

/*
 * The package as it is published, plain JavaScript, on every Node, Bun and Deno in PATH. `npm test` puts Node 26 first; the Node that
 * runs npm comes later.
 */

const api = ownedApi()
const client = fileURLToPath(new URL('..', import.meta.url))
const run = promisify(execFile)
let folder: string

const inPath = (name: string) =>
  process.env
    .PATH!.split(delimiter)
    .map((path) => join(path, name))
    .filter((path) => existsSync(path))
    .map((path) => realpathSync(path))

/** The command of each runtime, up to the name of the program. */
const runtimes: [string, ...string[]][] = [
  ...[...new Set([process.execPath, ...inPath('node')])].map((path): [string] => [path]),
  ...inPath('bun')
    .slice(0, 1)
    .map((path): [string] => [path]),
  ...inPath('deno')
    .slice(0, 1)
    .map((path): [string, ...string[]] => [path, 'run', '--node-modules-dir=manual', '--no-lock', '-A']),
]

/** Compiles into a folder of its own, so that `dist` of the checkout is not touched. */
function build(outDir: string): void {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => {} }
  const { fileNames, options } = ts.getParsedCommandLineOfConfigFile(join(client, 'tsconfig.build.json'), {}, host)!
  const { emitSkipped } = ts.createProgram(fileNames, { ...options, outDir }).emit()
  expect(emitSkipped).toBe(false)
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-client-'))
  const installed = join(folder, 'node_modules/@keyhook/client')
  await mkdir(installed, { recursive: true })
  await cp(join(client, 'package.json'), join(installed, 'package.json'))
  await writeFile(join(folder, 'package.json'), '{"dependencies":{"@keyhook/client":"*"}}')
  build(join(installed, 'dist'))
})
afterAll(() => rm(folder, { recursive: true }))

const program = `
import { createClient, KeyhookError, verifyWebhook } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import { webhookHandler } from '@keyhook/client/request'
const { url, token, organization, vector } = JSON.parse(process.env.INPUT)
const client = createClient({ url, token, organization })
const { id, api_key } = await client.keys.create({ name: 'built' })
const asKey = createClient({ url, token: api_key, organization })
const [own] = await asKey.organizations.list().toArray()
await client.keys.revoke(id)
const refused = await asKey.keys.list().toArray().catch((error) => error)
const now = new Date(Number(vector.headers['webhook-timestamp']) * 1000)
const event = await verifyWebhook({ ...vector, secret: vector.secrets, now })
const response = await webhookHandler({ secret: vector.secrets }, () => {})(new Request(url, { method: 'POST', ...vector }))
const late = await response.json()
const forbidden = await createOperatorClient({ url, token }).introspect({ token }).catch((error) => error.code)
console.log(JSON.stringify([own.id, refused instanceof KeyhookError, refused.code, event.type, late.reason, forbidden]))
`

test.for(runtimes)('the built package runs on %s', async ([command, ...args]) => {
  const file = join(folder, 'program.mjs')
  await writeFile(file, program)
  const input = { url: api.url, token: api.owner.token, organization: api.orgId, vector: vectorNamed('plain') }
  const { stdout, stderr } = await run(command!, [...args, file], {
    cwd: folder,
    env: { ...process.env, INPUT: JSON.stringify(input) },
  })
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual([
    api.orgId,
    true,
    'auth.invalid_token',
    'invoice.paid',
    'timestamp_too_old',
    'auth.permission_missing',
  ])
})
