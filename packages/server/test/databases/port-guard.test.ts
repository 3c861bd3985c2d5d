import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { createPortGuard } from '../../src/databases/drivers/local/ports.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { firstClosedDirectory } from '../../src/postgres/account.ts'
import { processesOf } from '../../src/postgres/uids.ts'
import { until } from '../kit/until.ts'
import { asRoot } from '../postgres/support/scratch.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder } from './support/platform.ts'
import '../kit/server-limits.ts'

/*
 * A program in the account of one database, and the port of another. As root.
 */
const run = promisify(execFile)
const anyone = { uid: 1_900_000_000, gid: 1_900_000_000 }
const canAttack = asRoot && (await firstClosedDirectory(dirname(process.execPath), anyone)) === undefined
const whyNoRules = await run('nft', ['list', 'tables']).then(
  () => null,
  (error: Error) => `nftables cannot be used here (${error.message.split('\n')[0]})`,
)

const { signal } = new AbortController()
const passwordVerifier = await scramVerifier('secret')
const [attacker, victim] = [newId('db'), newId('db')]
let folder: string
let dataDir: string
let instances: LocalInstances
let victimPort: number

const at = (id: DatabaseId, ...path: string[]) => join(dataDir, 'databases', id, ...path)
const portOf = async (id: DatabaseId) => Number(await readFile(at(id, 'port'), 'utf8'))
const accountOf = async (id: DatabaseId) => {
  const { uid, gid } = await stat(at(id, 'cluster'))
  return { uid, gid }
}

beforeAll(async () => {
  if (!canAttack) return
  folder = await scratchFolder()
  dataDir = (await nodeOf(join(folder, 'data'))).dataDir
  instances = openInstances(dataDir)
  for (const id of [attacker, victim]) await instances.provision(id, { passwordVerifier, signal })
  victimPort = await portOf(victim)
})

afterAll(async () => {
  if (!canAttack) return
  await instances.close()
  await rm(folder, { recursive: true, force: true })
})

/** Listens on the port of the victim, in the account of the attacker. */
async function takePort(): Promise<void> {
  const script = `require('net').createServer((socket) => socket.end('your password, please'))
    .listen(${victimPort}, '::', () => console.log('listening'))`
  const thief = spawn(process.execPath, ['-e', script], { ...(await accountOf(attacker)), cwd: '/' })
  const ended = once(thief, 'exit')
  onTestFinished(async () => {
    thief.kill('SIGKILL')
    await ended
  })
  const [said] = await Promise.race([once(thief.stdout, 'data'), ended])
  expect(String(said)).toBe('listening\n')
}

/** What a client meets at the port of the victim. */
const meets = (host: string) =>
  new Promise<string>((done) => {
    const socket = connect({ host, port: victimPort }, () => done('a server'))
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => done('nobody'))
    socket.setTimeout(1_500, () => done('silence'))
  })

/** Empty if there is no table. */
const rules = () =>
  run('nft', ['list', 'table', 'inet', 'keyhook']).then(
    ({ stdout }) => stdout,
    (error: Error) => (error.message.includes('No such file') ? '' : Promise.reject(error)),
  )

const asThief = (name: string, body: (context: TestContext) => Promise<void>) =>
  test.skipIf(!canAttack)(`${name} (needs root, and a Node that every user may run)`, async (context) => {
    if (whyNoRules !== null) context.skip(whyNoRules)
    await body(context)
  })

asThief('a program of another account that takes the port of a stopped database is heard by no client', async () => {
  expect(await meets('127.0.0.1')).toBe('a server')
  await instances.hold(victim)
  await takePort()
  for (const host of ['127.0.0.1', '::1']) expect(await meets(host)).toBe('silence')
})

asThief('the owner works again after that, also if a firewall removed the rule', async () => {
  await run('nft', [`delete element inet keyhook ports { ${victimPort} }`])
  await instances.release(victim, { signal })
  expect(await meets('127.0.0.1')).toBe('a server')
  expect(await rules()).toContain(`meta skuid != ${(await accountOf(victim)).uid} goto others`)
  expect(await rules()).toContain(`${victimPort} : jump port-${victimPort}`)
})

asThief('after a restart of Keyhook no port is open to others before its own server runs', async () => {
  await instances.close()
  expect(await rules()).not.toContain(`port-${victimPort}`)
  instances = openInstances(dataDir)
  await instances.resume(attacker, { signal })
  await takePort()
  expect(await meets('127.0.0.1')).toBe('silence')
})

asThief('the rule of a database ends with it', async () => {
  await instances.remove(victim)
  expect(await rules()).not.toContain(`port-${victimPort}`)
  expect(await rules()).toContain(`port-${await portOf(attacker)}`)
})

asThief('the table ends with the last process that has a rule in it', async () => {
  const { uid } = await accountOf(attacker)
  const [first, second] = [createPortGuard(), createPortGuard()]
  await first.protect(new Map([[1, uid]]))
  await second.protect(new Map([[2, uid]]))
  await first.close()
  expect(await rules()).not.toContain('port-1 ')
  expect(await rules()).toContain('2 : jump port-2')
  await second.close()
  expect(second.problem()).toBeNull()
  await instances.close()
  // Other tests may have databases on this machine.
  await until(rules, (found) => found === '' || found.includes(': jump port-'))
  instances = openInstances(dataDir)
  await instances.resume(attacker, { signal })
})

test.skipIf(!asRoot)('a stop, and a restart, end every process of the account (needs root)', async () => {
  const account = await accountOf(attacker)
  const leave = async () => {
    const left = spawn('sleep', ['600'], { ...account, cwd: '/', stdio: 'ignore', detached: true })
    const ended = once(left, 'exit')
    await once(left, 'spawn')
    return { ended }
  }
  const held = await leave()
  await instances.hold(attacker)
  await held.ended
  expect(await processesOf(account.uid)).toEqual([])
  const meanwhile = await leave()
  await instances.release(attacker, { signal })
  await meanwhile.ended
  const closed = await leave()
  await instances.close()
  await closed.ended
  expect(await processesOf(account.uid)).toEqual([])
})
