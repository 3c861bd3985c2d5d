import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { cleanEnvironment } from '../kit/processes.ts'

/*
 * What a stranger gets: the packages, packed and installed into an empty folder, without this checkout.
 */

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const run = promisify(execFile)
let folder: string
/** Only the packages of a customer. */
let customerFolder: string
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-installed-'))
  // Without the Node of this checkout: the installed package has to bring its own.
  const PATH = process.env.PATH!.split(delimiter).filter((one) => !one.includes('node_modules'))
  env = cleanEnvironment({ PATH: PATH.join(delimiter), PORT: '0', NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE! })
  customerFolder = await mkdtemp(join(tmpdir(), 'keyhook-installed-'))
  const packages = ['client', 'cli', 'server'].flatMap((name) => ['-w', `packages/${name}`])
  await run('npm', ['pack', '--pack-destination', folder, ...packages], { cwd: root, env })
  const tarballs = (await readdir(folder)).filter((name) => name.endsWith('.tgz')).map((name) => join(folder, name))
  expect(tarballs).toHaveLength(3)
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts']
  for (const cwd of [folder, customerFolder]) {
    await run('npm', ['init', '-y'], { cwd, env })
    const wanted = cwd === folder ? tarballs : tarballs.filter((path) => /keyhook-(cli|client)-/.test(path))
    await run('npm', ['install', ...options, ...wanted], { cwd, env })
  }
}, 300_000)

afterAll(async () => {
  await removeDataDirectory(join(folder, '.keyhook'))
  for (const one of [folder, customerFolder]) await rm(one, { recursive: true, force: true })
})

const names = ['keyhook', '@keyhook/client', '@keyhook/cli']

test.for(names)('%s holds plain JavaScript with declarations, and no tests', async (name) => {
  const home = join(folder, 'node_modules', name)
  const files = (await readdir(home, { recursive: true })).filter((path) => !path.startsWith('node_modules/'))
  const sources = files.filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts'))
  expect(sources).toEqual([])
  expect(files.filter((path) => /(^|\/)(test|bench|src)\//.test(path))).toEqual([])
  const modules = files.filter((path) => /^dist\/(?!console\/).*\.js$/.test(path))
  expect(modules.length).toBeGreaterThan(0)
  for (const path of modules) expect(files).toContain(path.replace(/\.js$/, '.d.ts'))
  expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md']))
})

test('npx keyhook serve answers in a folder that has only the packages', async () => {
  const server = spawn('npx', ['keyhook', 'serve', '--json'], { cwd: folder, env, detached: true })
  let [stdout, stderr] = ['', '']
  server.stdout.setEncoding('utf8').on('data', (chunk) => {
    stdout += chunk
  })
  server.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  const ended = once(server, 'close')
  try {
    await expect.poll(() => stdout || (server.exitCode !== null && stderr)).toContain('\n')
    const { url } = JSON.parse(stdout) as { url: string }
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    expect(await (await fetch(`${url}/docs/decisions`)).text()).toContain('## 1. ')
    const { version } = JSON.parse(await readFile(join(root, 'packages/server/package.json'), 'utf8'))
    expect((await run('npx', ['keyhook', '--version'], { cwd: folder, env })).stdout.trim()).toBe(version)
    const listed = await run('npx', ['keyhook', 'org', 'list', '--json'], { cwd: folder, env })
    expect(JSON.parse(listed.stdout)).toHaveLength(1)
    // A customer's command, which uses the other package.
    const { owner_id } = JSON.parse(stdout) as { owner_id: string }
    const issued = await run('npx', ['keyhook', 'token', 'issue', '--user', owner_id], { cwd: folder, env })
    const customer = { ...env, KEYHOOK_URL: url, KEYHOOK_TOKEN: issued.stdout.trim() }
    const made = await run('npx', ['keyhook', 'keys', 'create', '--name', 'ci', '--json'], {
      cwd: folder,
      env: customer,
    })
    expect(JSON.parse(made.stdout)).toMatchObject({ name: 'ci' })
  } finally {
    process.kill(-server.pid!, 'SIGTERM')
    await ended
  }
})

test('npx keyhook demo runs in a folder that has only the packages', async () => {
  const { stdout } = await run('npx', ['keyhook', 'demo', '--once', '--json'], { cwd: folder, env })
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.slice(0, 3).map(({ event, signature }) => [event, signature])).toEqual([
    ['database.created', 'good'],
    ['backup.completed', 'good'],
    ['restore.completed', 'good'],
  ])
  expect(lines[3]).toMatchObject({ api_key: expect.stringMatching(/^kh_/) })
})

test('@keyhook/cli works without the server, on the Node that runs npm, and brings only the client and Commander', async () => {
  const cwd = customerFolder
  const installed = await readdir(join(cwd, 'node_modules'))
  expect(installed.filter((name) => !name.startsWith('.'))).toEqual(['@keyhook', 'commander'])
  const state = { XDG_CONFIG_HOME: join(cwd, 'config'), XDG_STATE_HOME: join(cwd, 'state') }
  const customer = (args: string[], more: NodeJS.ProcessEnv = {}) =>
    run('npx', ['keyhook', ...args], { cwd, env: { ...env, ...state, ...more } }).catch((error) => error)
  const { version } = JSON.parse(await readFile(join(root, 'packages/cli/package.json'), 'utf8'))
  expect(await customer(['--version'])).toMatchObject({ stdout: `${version}\n` })
  expect((await run('npx', ['@keyhook/cli', '--help'], { cwd, env })).stdout).toContain('  keys  ')
  expect(await customer(['serve'])).toMatchObject({ code: 2, stderr: expect.stringContaining("command 'serve'") })
  expect(await customer(['keys', 'list'])).toMatchObject({ code: 3, stderr: expect.stringMatching(/not logged in/) })
  const nowhere = { KEYHOOK_URL: 'http://127.0.0.1:1', KEYHOOK_TOKEN: 'x', KEYHOOK_ORG: 'org_x' }
  expect(await customer(['keys', 'list'], nowhere)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/The server cannot be reached: /),
  })
  expect((await customer(['webhooks', 'code'])).stdout).toContain('isFromKeyhook')
  expect((await customer(['completion', 'bash'])).stdout).toContain('"keys create")')
})

test('keyhook receive of @keyhook/cli listens, and ends with Ctrl-C', async () => {
  const program = join(customerFolder, 'node_modules/.bin/keyhook')
  const child = spawn(program, ['receive', '--no-register', '--port', '0'], {
    env: { ...env, XDG_STATE_HOME: join(customerFolder, 'state') },
  })
  const ended = once(child, 'close')
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  try {
    await expect.poll(() => stderr || child.exitCode !== null).toContain('Receiving on https://127.0.0.1:')
    await expect.poll(() => stderr).toContain('KEYHOOK_DELIVERY_CA_FILE=')
  } finally {
    child.kill('SIGINT')
  }
  expect(await ended).toEqual([0, null])
})
