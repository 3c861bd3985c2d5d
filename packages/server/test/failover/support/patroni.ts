import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, openSync, readdirSync } from 'node:fs'
import { chown, copyFile, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type ConnectionTarget, connect } from '../../../src/db/database.ts'
import type { Account } from '../../../src/postgres/account.ts'
import { accountFor } from '../../../src/postgres/account.ts'
import { isPostgresOn, parseLockFile } from '../../../src/postgres/lock-file.ts'
import { freePort } from '../../kit/free-port.ts'
import { until } from '../../kit/until.ts'
import { familyOf, sendSignal } from './replicated-postgres.ts'
import { whenAvailable } from './stored.ts'

/* Three members under Patroni with etcd, behind HAProxy: Debian's programs with the files that we give to operators. */

const samples = new URL('../../../../../deploy/postgres-failover/', import.meta.url).pathname

const inPath = (name: string) =>
  `${process.env.PATH}:/usr/sbin:/usr/bin`.split(':').some((folder) => existsSync(join(folder, name)))
const postgresHome = '/usr/lib/postgresql'
const postgresBin = (existsSync(postgresHome) ? readdirSync(postgresHome) : [])
  .filter((version) => Number(version) >= 15 && existsSync(join(postgresHome, version, 'bin/pg_rewind')))
  .map((version) => join(postgresHome, version, 'bin'))
  .at(-1)
export const missingPrograms = [
  ...['patroni', 'etcd', 'haproxy'].filter((name) => !inPath(name)),
  ...(postgresBin === undefined ? ['postgresql'] : []),
]

type State = { role: string; state: string; sync_standby?: boolean }

export type Member = {
  name: string
  home: string
  start(): void
  /** kill -9 of Patroni, PostgreSQL and all their processes, as if the machine was gone. */
  kill(): Promise<void>
  /** What Patroni's REST interface answers. */
  state(): Promise<State | null>
  isPrimary(): Promise<boolean>
}

export async function startPatroniCluster() {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'keyhook-test-')))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const account = await accountFor(undefined)
  if (account) await chown(folder, account.uid, account.gid)
  const run = (program: string, args: string[], env: Record<string, string>): ChildProcess => {
    const log = openSync(join(folder, 'log'), 'a')
    const child = spawn(program, args, {
      cwd: folder,
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: folder, TMPDIR: folder, LC_ALL: 'C.UTF-8', ...env },
      stdio: ['ignore', log, log],
      ...account,
    })
    return child
  }
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') console.log((await readFile(join(folder, 'log'), 'utf8')).slice(-10_000))
  })

  // Addresses of loopback that no other test uses, so that members can have the same ports, as machines do.
  const hosts = [1, 2, 3].map((host) => `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${host}`)
  const [postgresPort, patroniPort, peerPort, etcdPort, address] = await freePorts()
  const etcd = `127.0.0.1:${etcdPort}`
  endAfterwards(
    run(
      'etcd',
      [
        ...[
          '--name',
          'one',
          '--data-dir',
          join(folder, 'etcd'),
          '--initial-cluster',
          `one=http://127.0.0.1:${peerPort}`,
        ],
        ...['--listen-client-urls', `http://${etcd}`, '--advertise-client-urls', `http://${etcd}`],
        ...['--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
        ...['--initial-advertise-peer-urls', `http://127.0.0.1:${peerPort}`],
      ],
      {},
    ),
  )
  await until(() => answers(`http://${etcd}/health`))

  const password = randomBytes(16).toString('hex')
  const member = (host: string, i: number): Member => {
    const name = `postgres-${i + 1}`
    const home = join(folder, name)
    const api = `http://${host}:${patroniPort}`
    const env = {
      PATRONI_NAME: name,
      PATRONI_ETCD3_HOSTS: etcd,
      PATRONI_RESTAPI_LISTEN: `${host}:${patroniPort}`,
      PATRONI_RESTAPI_CONNECT_ADDRESS: `${host}:${patroniPort}`,
      PATRONI_POSTGRESQL_LISTEN: `${host}:${postgresPort}`,
      PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${host}:${postgresPort}`,
      PATRONI_POSTGRESQL_DATA_DIR: join(home, 'data'),
      PATRONI_POSTGRESQL_BIN_DIR: postgresBin!,
      PATRONI_POSTGRESQL_PGPASS: join(home, 'pgpass'),
      PATRONI_SUPERUSER_PASSWORD: password,
      PATRONI_REPLICATION_PASSWORD: password,
    }
    let patroni: ChildProcess | undefined
    const kill = async () => {
      if (patroni === undefined) return
      await end(patroni)
      await killPostgres(join(home, 'data'))
    }
    onTestFinished(kill)
    return {
      name,
      home,
      start() {
        patroni = run('patroni', [join(home, 'config')], env)
      },
      kill,
      isPrimary: () => answers(`${api}/primary`),
      async state() {
        const answer = await fetch(`${api}/patroni`, { signal: AbortSignal.timeout(5_000) }).catch(() => null)
        return ((await answer?.json().catch(() => null)) ?? null) as State | null
      },
    }
  }
  const members = hosts.map(member)
  for (const one of members) {
    await prepareHome(one.home, account)
    one.start()
  }

  const [one, two, three] = hosts as [string, string, string]
  const ports = { POSTGRES_PORT: String(postgresPort), PATRONI_PORT: String(patroniPort) }
  const proxied = { ADDRESS: `127.0.0.1:${address}`, POSTGRES_1: one, POSTGRES_2: two, POSTGRES_3: three, ...ports }
  endAfterwards(run('haproxy', ['-db', '-f', join(samples, 'haproxy.cfg')], proxied))

  const replicas = async () => {
    const states = await Promise.all(members.map((one) => one.state()))
    return states.filter((state) => state?.role === 'replica' && state.state === 'running')
  }
  await until(async () => (await replicas()).length === 2 && (await replicas()).some((state) => state?.sync_standby))
  const admin = { host: '127.0.0.1', port: address, user: 'postgres', password, database: 'postgres' }
  await createKeyhookDatabase(admin, password)
  const target: ConnectionTarget = { ...admin, user: 'keyhook', database: 'keyhook' }
  return {
    target,
    url: `postgres://keyhook:${password}@127.0.0.1:${address}/keyhook`,
    members,
    primary: () => until(() => only(members)),
  }
}

/** Patroni merges the files of a folder: ours as it is, and a place for the socket, which members on one machine cannot share. */
async function prepareHome(home: string, account: Account | undefined): Promise<void> {
  await mkdir(join(home, 'config'), { recursive: true })
  await copyFile(join(samples, 'patroni.yml'), join(home, 'config/patroni.yml'))
  const socket = { postgresql: { parameters: { unix_socket_directories: home } } }
  // JSON is YAML too.
  await writeFile(join(home, 'config/socket.yml'), JSON.stringify(socket))
  if (account) await chown(home, account.uid, account.gid)
}

async function only(members: Member[]): Promise<Member | null> {
  const answers = await Promise.all(members.map((member) => member.isPrimary()))
  const primaries = members.filter((_, i) => answers[i])
  // The answers are not of the same moment.
  return primaries.length === 1 ? primaries[0]! : null
}

async function createKeyhookDatabase(admin: ConnectionTarget, password: string): Promise<void> {
  const db = connect(admin, { name: 'test', connectionsMax: 1 })
  try {
    await whenAvailable(() => db`select 1`)
    await db.unsafe(`create role keyhook login password '${password}'`)
    await db.unsafe('create database keyhook owner keyhook')
  } finally {
    await db.end({ timeout: 5 })
  }
}

const answers = (url: string): Promise<boolean> =>
  fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
    async (answer) => {
      await answer.arrayBuffer()
      return answer.ok
    },
    () => false,
  )

/** Five that are different. */
async function freePorts(): Promise<[number, number, number, number, number]> {
  const found = new Set<number>()
  while (found.size < 5) found.add(await freePort())
  return [...found] as [number, number, number, number, number]
}

const endAfterwards = (child: ChildProcess): void => void onTestFinished(() => end(child))

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = once(child, 'exit')
  for (const pid of await familyOf(child.pid)) sendSignal(pid, 'SIGKILL')
  await ended
}

/** PostgreSQL is not a child of Patroni. */
async function killPostgres(cluster: string): Promise<void> {
  const lock = parseLockFile(await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => ''))
  if (lock === undefined || !(await isPostgresOn(cluster, lock.pid))) return
  for (const pid of await familyOf(lock.pid)) sendSignal(pid, 'SIGKILL')
  await until(async () => !(await isPostgresOn(cluster, lock.pid)))
}
