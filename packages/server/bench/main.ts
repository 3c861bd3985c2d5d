import { chmod, mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isPostgresOn, readLockFile } from '../src/postgres/lock-file.ts'

/*
 * npm run bench -- auth | introspect | report | deliver | capacity | history
 * Every figure stands beside its limit, measured in the same run, in turns; medians are printed.
 */
const benches: Record<string, () => Promise<void>> = {
  auth: async () => (await import('./auth.ts')).benchAuth(),
  introspect: async () => (await import('./introspect.ts')).benchIntrospect(),
  report: async () => (await import('./report.ts')).benchReport(),
  deliver: async () => (await import('./deliver.ts')).benchDeliver(),
  capacity: async () => (await import('./capacity.ts')).benchCapacity(),
  history: async () => (await import('./history.ts')).benchHistory(),
}

const bench = benches[process.argv[2] ?? '']
if (bench === undefined) {
  console.error(`Say which: npm run bench -- ${Object.keys(benches).join(' | ')}`)
  process.exitCode = 2
} else {
  await cleanly(bench)
}

/**
 * PostgreSQL runs in its own session, which Ctrl-C does not reach: without this it would keep running. Everything that a
 * bench creates is in one folder, so that it can be removed at any moment.
 */
async function cleanly(run: () => Promise<void>): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'keyhook-bench-'))
  // PostgreSQL may run as another user, who needs access.
  await chmod(scratch, 0o755)
  process.env.TMPDIR = scratch
  const interrupted = Promise.withResolvers<NodeJS.Signals>()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.resolve(signal))
  const done = run()
  // Errors because the database is gone are expected.
  done.catch(() => {})
  const signal = await Promise.race([done, interrupted.promise])
  if (signal !== undefined) await sweep(scratch)
  await rm(scratch, { recursive: true, force: true })
  if (signal !== undefined) process.kill(process.pid, signal)
}

async function sweep(scratch: string): Promise<void> {
  for (const name of await readdir(scratch)) {
    const cluster = join(scratch, name, 'postgres')
    const pid = (await readLockFile(cluster).catch(() => undefined))?.pid
    if (pid === undefined || !(await isPostgresOn(cluster, pid))) continue
    process.kill(pid, 'SIGQUIT')
    while (await isPostgresOn(cluster, pid)) await sleep(20)
    await rm(await realpath(cluster), { recursive: true, force: true })
  }
}
