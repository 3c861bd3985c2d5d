import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, glob, mkdir, readdir, readFile, readlink, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { readArchive } from '../../src/archives/archive.ts'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { isolationOf, nodeOf } from '../../src/databases/drivers/local/home.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import type { Account } from '../../src/postgres/account.ts'
import { firstClosedDirectory } from '../../src/postgres/account.ts'
import { type Embedded, openEmbedded } from '../../src/postgres/index.ts'
import { readLockFile } from '../../src/postgres/lock-file.ts'
import { covers, processesOf } from '../../src/postgres/uids.ts'
import { makeMasterKey, masterKeyPath } from '../../src/startup/master-keys.ts'
import { until } from '../kit/until.ts'
import { asRoot } from '../postgres/support/scratch.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder } from './support/platform.ts'

const { signal } = new AbortController()
const passwordVerifier = await scramVerifier('secret')
const anyone = { uid: 1_900_000_000, gid: 1_900_000_000 }
// A program in the account of an instance has to be able to run Node.
const canAttack = asRoot && (await firstClosedDirectory(dirname(process.execPath), anyone)) === undefined

let folder: string
let dataDir: string
let instances: LocalInstances
let own: Embedded
const [attacker, victim] = [newId('db'), newId('db')]

const at = (id: DatabaseId, ...path: string[]) => join(dataDir, 'databases', id, ...path)

async function accountOf(id: DatabaseId): Promise<Account> {
  const { uid, gid } = await stat(at(id, 'cluster'))
  return { uid, gid }
}

/** Runs a program in the account of an instance, as somebody would who got a shell there. */
const runAs = async (id: DatabaseId, program: string, args: string[]) =>
  promisify(execFile)(program, args, { ...(await accountOf(id)), cwd: '/' })

/** The error code of JavaScript that runs in the account of the attacker, or what it printed. */
async function attack(script: string): Promise<string> {
  const wrapped = `const fs = require('fs'), net = require('net');
    Promise.resolve().then(() => { ${script} }).then((got) => console.log('DONE', got ?? ''), (error) => console.log(error.code ?? error))`
  return (await runAs(attacker, process.execPath, ['-e', wrapped])).stdout.trim()
}

beforeAll(async () => {
  if (!canAttack) return
  folder = await scratchFolder()
  dataDir = (await nodeOf(join(folder, 'data'))).dataDir
  await makeMasterKey(dataDir)
  own = await openEmbedded({ dataDir, purpose: 'serve', settings: { fsync: 'off' } })
  instances = openInstances(dataDir)
  for (const id of [attacker, victim]) await instances.provision(id, { passwordVerifier, signal })
}, 120_000)

afterAll(async () => {
  if (!canAttack) return
  await instances.close()
  await own.stop()
  await rm(folder, { recursive: true, force: true })
})

const asAttacker = test.skipIf(!canAttack)
const suffix = '(needs root, and a Node that every user may run)'

asAttacker(`each instance and Keyhook's own cluster run under uids of their own ${suffix}`, async () => {
  const uids = [(await accountOf(attacker)).uid, (await accountOf(victim)).uid, (await stat(own.connection.host)).uid]
  expect(new Set(uids).size).toBe(3)
  expect(uids).not.toContain(0)
  for (const id of [attacker, victim]) {
    const { pid } = (await readLockFile(at(id, 'cluster')))!
    expect(await processesOf((await accountOf(id)).uid)).toContain(pid)
    expect((await stat(at(id))).mode & 0o777).toBe(0o710)
    expect((await stat(at(id, 'cluster'))).mode & 0o777).toBe(0o700)
  }
})

asAttacker(`the account of an instance opens nothing of others, and not the master key ${suffix}`, async () => {
  const closed = [
    masterKeyPath(dataDir),
    join(dataDir, 'id'),
    join(dataDir, 'postgres.password'),
    join(dataDir, 'postgres.log'),
    join(own.connection.host, 'PG_VERSION'),
    at(victim, 'cluster/PG_VERSION'),
    at(victim, 'postgres.log'),
    at(victim, 'port'),
    at(attacker, 'uid'),
    at(attacker, 'port'),
    `/proc/${process.pid}/environ`,
    `/proc/${(await readLockFile(at(victim, 'cluster')))!.pid}/environ`,
    `/proc/${(await readLockFile(join(dataDir, 'postgres')))!.pid}/environ`,
  ]
  for (const path of closed) expect(await attack(`fs.readFileSync(${JSON.stringify(path)})`), path).toBe('EACCES')
  // A spare cluster that is being made has another name, and is renamed in the end.
  const spare = await until(async () =>
    (await readdir(join(dataDir, 'databases'))).find((name) => /^spare-[^.]*$/.test(name)),
  )
  for (const path of [dataDir, join(dataDir, 'databases'), join(dataDir, 'databases', spare), at(victim), at(attacker)])
    expect(await attack(`fs.readdirSync(${JSON.stringify(path)})`), path).toBe('EACCES')
  for (const path of [at(attacker, 'uid'), at(victim, 'x'), join(dataDir, 'x')])
    expect(await attack(`fs.writeFileSync(${JSON.stringify(path)}, '1')`), path).toBe('EACCES')
  // Its own files are open, so the attack itself works.
  expect(await attack(`return fs.readFileSync(${JSON.stringify(at(attacker, 'cluster/PG_VERSION'))}, 'utf8')`)).toMatch(
    /^DONE \d+/,
  )
})

asAttacker(`the account of an instance reaches no socket and no process of others ${suffix}`, async () => {
  const sockets = [at(victim, 'cluster'), own.connection.host]
  for (const directory of sockets) {
    const name = (await readdir(directory)).find((entry) => /^\.s\.PGSQL\.\d+$/.test(entry))!
    const script = `return new Promise((done, fail) => net.connect(${JSON.stringify(join(directory, name))}, done).on('error', fail))`
    expect(await attack(script), directory).toBe('EACCES')
  }
  const pids = [
    process.pid,
    (await readLockFile(at(victim, 'cluster')))!.pid,
    (await readLockFile(join(dataDir, 'postgres')))!.pid,
  ]
  for (const pid of pids) expect(await attack(`process.kill(${pid}, 0)`)).toBe('EPERM')
  const { pid } = (await readLockFile(at(attacker, 'cluster')))!
  expect(await attack(`process.kill(${pid}, 0)`)).toBe('DONE')
})

asAttacker(`no pg_hba.conf says trust, and only Keyhook's own user gets in as superuser ${suffix}`, async () => {
  const rules = await Array.fromAsync(glob(`${dataDir}/**/pg_hba.conf`))
  expect(rules.length).toBeGreaterThan(3)
  for (const path of rules) {
    const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => !line.startsWith('#'))
    expect(lines.join('\n'), path).not.toMatch(/\btrust\b/)
  }
  // Through its own socket, which the account can reach.
  const port = (await readFile(at(attacker, 'port'), 'utf8')).trim()
  const startup = `const text = Buffer.from('user\\0keyhook\\0database\\0postgres\\0\\0'), head = Buffer.alloc(8)
    head.writeInt32BE(8 + text.length, 0); head.writeInt32BE(196608, 4)
    return new Promise((done, fail) => {
      const socket = net.connect(${JSON.stringify(at(attacker, 'cluster', `.s.PGSQL.${port}`))}, () => socket.write(Buffer.concat([head, text])))
      socket.on('data', (answer) => { done(String.fromCharCode(answer[0]) + answer.toString().replace(/[^ -~]/g, ' ')); socket.destroy() }).on('error', fail)
    })`
  expect(await attack(startup)).toContain('Peer authentication failed')
})

asAttacker(`PostgreSQL inherits no environment and no open file of Keyhook ${suffix}`, async () => {
  for (const cluster of [at(attacker, 'cluster'), join(dataDir, 'postgres')]) {
    const { pid } = (await readLockFile(cluster))!
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8')
    const names = environment
      .split('\0')
      .filter(Boolean)
      .map((line) => line.split('=')[0])
    for (const name of names)
      expect(['PATH', 'LC_ALL', 'TZ', 'PG_OOM_ADJUST_FILE', 'PG_OOM_ADJUST_VALUE'], name).toContain(name)
    const files = await Promise.all((await readdir(`/proc/${pid}/fd`)).map((fd) => readlink(`/proc/${pid}/fd/${fd}`)))
    const foreign = files.filter(
      (file) => file.startsWith('/') && !file.startsWith('/dev/') && !file.startsWith(cluster),
    )
    // The server writes its own log.
    for (const file of foreign) expect(file).toMatch(/\/postgres\.log$/)
  }
})

asAttacker(`a link to the master key is neither backed up nor followed ${suffix}`, async () => {
  const key = await readFile(masterKeyPath(dataDir))
  const history = at(attacker, 'cluster/pg_wal/00000002.history')
  /** The contents of every file of a backup. */
  const backUp = async (): Promise<Buffer> => {
    const contents: Buffer[] = []
    await readArchive(
      instances.backup(attacker, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal }),
      {
        async directory() {},
        async file(_path, body) {
          contents.push(Buffer.concat(await Array.fromAsync(body)))
        },
      },
      { bytesMax: Number.POSITIVE_INFINITY },
    ).catch(async (error: Error) => {
      // The session of a failed backup, and with it its slot, ends a moment later.
      if (!error.message.includes('already exists')) throw error
      contents.push(await backUp())
    })
    return Buffer.concat(contents)
  }
  await runAs(attacker, 'ln', ['-s', masterKeyPath(dataDir), history])
  await expect(backUp()).rejects.toThrow('00000002.history is a link')
  await unlink(history)
  await runAs(attacker, 'mkfifo', [history])
  await expect(backUp()).rejects.toThrow('00000002.history is a link, a pipe or a socket')
  await unlink(history)
  await runAs(attacker, 'ln', ['-s', dataDir, at(attacker, 'cluster/base/99')])
  await expect(backUp()).rejects.toThrow('base/99 is a link')
  await unlink(at(attacker, 'cluster/base/99'))
  // Where the kernel permits hard links to the files of others, the owner and the count of names are checked.
  expect(await attack(`fs.linkSync(${JSON.stringify(masterKeyPath(dataDir))}, ${JSON.stringify(history)})`)).toMatch(
    /^E/,
  )
  const contents = await backUp()
  expect(contents.length).toBeGreaterThan(1_000_000)
  expect(contents.includes(key)).toBe(false)
})

asAttacker(
  `an account keeps its uid over a restart, and a removed one leaves no process and no uid ${suffix}`,
  async () => {
    const id = newId('db')
    await instances.provision(id, { passwordVerifier, signal })
    const account = await accountOf(id)
    const another = openInstances(dataDir)
    onTestFinished(() => another.close())
    const left = spawn('sleep', ['600'], { ...account, cwd: '/', stdio: 'ignore', detached: true })
    const ended = once(left, 'exit')
    expect(await processesOf(account.uid)).toContain(left.pid)
    // A link that would lead the removal out of the directory, and a lock file that is none.
    await mkdir(join(folder, 'kept'))
    await writeFile(join(folder, 'kept/file'), 'kept')
    await symlink(join(folder, 'kept'), at(id, 'cluster/out'))
    await instances.remove(id)
    await ended
    expect(await processesOf(account.uid)).toEqual([])
    expect(await readFile(join(folder, 'kept/file'), 'utf8')).toBe('kept')
    await instances.provision(id, { passwordVerifier, signal })
    expect((await accountOf(id)).uid).not.toBe(account.uid)
    const { uid } = await accountOf(id)
    await instances.close()
    instances = openInstances(dataDir)
    for (const again of [id, attacker, victim]) await instances.resume(again, { signal })
    expect((await accountOf(id)).uid).toBe(uid)
    await instances.remove(id)
  },
)

test.skipIf(!asRoot)('the start says how databases are separated, and why if they are not (needs root)', async () => {
  const mine = await scratchFolder()
  onTestFinished(() => rm(mine, { recursive: true, force: true }))
  expect(await isolationOf(mine, null)).toEqual({ mode: 'uids' })
  await chown(mine, anyone.uid, anyone.gid)
  expect(await isolationOf(mine, null)).toEqual({ mode: 'shared', why: `root runs them as the owner of ${mine}` })
})

test('a range of uids is usable only if all of it is mapped', () => {
  const container = '         0     100000      65536\n'
  expect(covers(container, { first: 20_000, last: 59_999 })).toBe(true)
  expect(covers(container, { first: 20_000, last: 65_536 })).toBe(false)
  expect(covers('0 0 4294967295\n', { first: 1_900_000_000, last: 1_999_999_999 })).toBe(true)
  expect(covers('', { first: 1, last: 1 })).toBe(false)
})
