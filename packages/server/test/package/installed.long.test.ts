import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeDataDirectory } from '../support/data-directory.ts'
import { cleanEnvironment } from '../support/processes.ts'

/*
 * What a stranger gets: both packages, packed and installed into an empty folder, without this checkout.
 */

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const run = promisify(execFile)
let folder: string
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-installed-'))
  // Without the Node of this checkout: the installed package has to bring its own.
  const PATH = process.env.PATH!.split(delimiter).filter((one) => !one.includes('node_modules'))
  env = cleanEnvironment({ PATH: PATH.join(delimiter), PORT: '0', NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE! })
  await run('npm', ['pack', '--pack-destination', folder, '-w', 'packages/server', '-w', 'packages/client'], {
    cwd: root,
    env,
  })
  const tarballs = (await readdir(folder)).filter((name) => name.endsWith('.tgz')).map((name) => join(folder, name))
  expect(tarballs).toHaveLength(2)
  await run('npm', ['init', '-y'], { cwd: folder, env })
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts']
  await run('npm', ['install', ...options, ...tarballs], { cwd: folder, env })
}, 300_000)

afterAll(async () => {
  await removeDataDirectory(join(folder, '.keyhook'))
  await rm(folder, { recursive: true, force: true })
})

test.for(['keyhook', '@keyhook/client'])('%s holds plain JavaScript with declarations, and no tests', async (name) => {
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
