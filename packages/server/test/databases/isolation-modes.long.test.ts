import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, readdir, readFile, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { firstClosedDirectory } from '../../src/postgres/account.ts'
import { isPostgresOn } from '../../src/postgres/lock-file.ts'
import { removeTree } from '../../src/postgres/untrusted-files.ts'
import { until } from '../kit/until.ts'
import { asRoot } from '../postgres/support/scratch.ts'
import { portRange, scratchFolder } from './support/platform.ts'

const nobody = { uid: 65_534, gid: 65_534 }
const script = join(import.meta.dirname, 'support/isolated-keyhook.ts')

type Line = { why?: string; ready?: true; dataDir?: string; pids?: number[]; output?: string; event?: string }

/** Keyhook's own server and databases, in a process of an ordinary user, or behind `prefix`. */
async function start(folder: string, first: string, ids: DatabaseId[], context: TestContext, prefix: string[] = []) {
  const [command, ...args] = [...prefix, process.execPath, script, join(folder, 'data'), first, ...ids] as [
    string,
    ...string[],
  ]
  const account = asRoot && prefix.length === 0 ? nobody : {}
  const child: ChildProcess = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], cwd: '/', ...account })
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await ended
  })
  const lines: Line[] = []
  createInterface({ input: child.stdout! }).on('line', (line) => lines.push(JSON.parse(line) as Line))
  const untilLine = async (wanted: (line: Line) => boolean): Promise<Line> => {
    await until(() => lines.some(wanted) || child.exitCode !== null)
    const found = lines.findIndex(wanted)
    if (found < 0) throw new Error(`it ended with ${child.exitCode}`)
    return lines.splice(found, 1)[0]!
  }
  const started = await untilLine((line) => line.why !== undefined || line.ready === true)
  if (started.why !== undefined) context.skip(`no namespaces here: ${started.why}`)
  return {
    child,
    ended,
    untilLine,
    dataDir: started.dataDir!,
    pids: started.pids!,
    /** The output of a shell command inside of a server. */
    async run(where: 'own' | 'database', command: string): Promise<string> {
      child.stdin!.write(`${JSON.stringify({ where, command })}\n`)
      return (await untilLine((line) => line.output !== undefined)).output!
    },
  }
}

async function folderForTest(context: TestContext): Promise<string> {
  if (process.platform !== 'linux') context.skip('namespaces need Linux')
  if (asRoot && (await firstClosedDirectory(dirname(process.execPath), nobody)))
    context.skip('an ordinary user cannot run this Node')
  const folder = await realpath(await scratchFolder())
  onTestFinished(() => removeTree(folder))
  if (asRoot) await chown(folder, nobody.uid, nobody.gid)
  return folder
}

const firstPort = () => portRange().split('-')[0]!

test('without root, a server sees neither the master key, nor other databases, nor their processes', async (context) => {
  const folder = await folderForTest(context)
  const [attacker, victim] = [newId('db'), newId('db')]
  const keyhook = await start(folder, firstPort(), [attacker, victim], context)
  const { dataDir, pids } = keyhook
  const key = (await readFile(join(dataDir, 'master.key'), 'utf8')).trim()
  const home = join(dataDir, 'databases')
  for (const where of ['own', 'database'] as const) {
    const closed = [
      `cat ${dataDir}/master.key`,
      `cat ${dataDir}/postgres.password`,
      `cat ${home}/${victim}/cluster/PG_VERSION`,
      `cat /proc/${keyhook.child.pid}/environ`,
      `ls /proc/${pids[1]}`,
      ...(where === 'database' ? [`ls ${dataDir}/postgres`] : [`ls ${home}`]),
    ]
    for (const command of closed) expect(await keyhook.run(where, command), command).toContain('No such file')
    for (const pid of [keyhook.child.pid, ...pids])
      expect(await keyhook.run(where, `sh -c 'kill -0 ${pid}'`), String(pid)).toContain('No such process')
    // Nowhere in what it can read, also by another name.
    expect(await keyhook.run(where, `grep -rls '${key}' /tmp /etc /dev/shm /home /root /var /run; echo searched`)).toBe(
      'searched',
    )
    // A namespace of its own does not bring anything back.
    const again = `unshare --user --map-root-user --mount sh -c 'umount -l ${dataDir}; umount -l /tmp; cat ${dataDir}/master.key'`
    expect(await keyhook.run(where, again)).not.toContain(key)
    // Its own programs cannot be replaced.
    expect(await keyhook.run(where, 'touch /usr/x')).toMatch(/Read-only|Permission/)
  }
  // Its own files are there, so the attacks themselves work.
  expect(await keyhook.run('database', `cat ${home}/${attacker}/cluster/PG_VERSION`)).toMatch(/^\d+$/)
  expect(await keyhook.run('own', `cat ${dataDir}/postgres/PG_VERSION`)).toMatch(/^\d+$/)
  keyhook.child.kill('SIGTERM')
  await keyhook.ended
  for (const [index, id] of [attacker, victim].entries())
    expect(await isPostgresOn(join(home, id, 'cluster'), pids[index]!)).toBe(false)
  // A clean stop removes the lock file.
  expect(await readdir(join(home, attacker, 'cluster'))).not.toContain('postmaster.pid')
}, 240_000)

test('without root, a killed server is started again, and those of a killed Keyhook are stopped by the next', async (context) => {
  const folder = await folderForTest(context)
  const [id, first] = [newId('db'), firstPort()]
  const keyhook = await start(folder, first, [id], context)
  const cluster = join(keyhook.dataDir, 'databases', id, 'cluster')
  process.kill(keyhook.pids[0]!, 'SIGKILL')
  await keyhook.untilLine((line) => line.event === 'stopped_by_itself')
  await keyhook.untilLine((line) => line.event === 'restarted')
  expect(await keyhook.run('database', 'echo it runs')).toBe('it runs')
  keyhook.child.kill('SIGKILL')
  await keyhook.ended
  expect(await isPostgresOn(join(keyhook.dataDir, 'postgres'), keyhook.pids[1]!)).toBe(true)
  const next = await start(folder, first, [id], context)
  expect(await isPostgresOn(join(keyhook.dataDir, 'postgres'), keyhook.pids[1]!)).toBe(false)
  expect(await isPostgresOn(cluster, next.pids[0]!)).toBe(true)
  await next.untilLine((line) => line.event === 'orphan')
  next.child.kill('SIGTERM')
  await next.ended
  for (const [index, path] of [cluster, join(next.dataDir, 'postgres')].entries())
    expect(await isPostgresOn(path, next.pids[index]!)).toBe(false)
}, 240_000)

test.skipIf(!asRoot)(
  'with the rights of the systemd unit, no server can read the master key (needs root)',
  async (context) => {
    const unit = await readFile(new URL('../../../../deploy/systemd/keyhook.service', import.meta.url), 'utf8')
    expect(unit).not.toMatch(/^User=/m)
    const names = /^CapabilityBoundingSet=(.*)$/m.exec(unit)![1]!.toLowerCase().split(' ')
    const rights = names.map((name) => `+${name.replace('cap_', '')}`).join(',')
    const folder = await scratchFolder()
    onTestFinished(() => removeTree(folder))
    const setpriv = ['setpriv', '--bounding-set', `-all,${rights}`, '--no-new-privs', '--']
    const keyhook = await start(folder, firstPort(), [newId('db')], context, setpriv)
    const status = await readFile(`/proc/${keyhook.child.pid}/status`, 'utf8')
    expect(status).toMatch(/^NoNewPrivs:\t1$/m)
    for (const where of ['own', 'database'] as const) {
      for (const path of [`${keyhook.dataDir}/master.key`, `/proc/${keyhook.child.pid}/environ`])
        expect(await keyhook.run(where, `cat ${path}`), path).toContain('Permission denied')
    }
    process.kill(keyhook.pids[0]!, 'SIGKILL')
    await keyhook.untilLine((line) => line.event === 'restarted')
    keyhook.child.kill('SIGTERM')
    await keyhook.ended
  },
)
