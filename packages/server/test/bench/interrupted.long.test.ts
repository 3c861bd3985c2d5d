import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { scratch } from '../postgres/support/scratch.ts'

const program = new URL('../../bench/main.ts', import.meta.url).pathname

test.each(['SIGINT', 'SIGTERM'] as const)(
  'a bench that is ended by %s stops its PostgreSQL and removes its files',
  async (signal) => {
    const folder = await scratch()
    const child = spawn(process.execPath, [program, 'deliver'], {
      env: { ...process.env, TMPDIR: folder, BENCH_ONLY: 'latency' },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    let [cluster, pid] = ['', 0]
    while (pid === 0) {
      expect(child.exitCode).toBeNull()
      await sleep(20)
      const [own] = await readdir(folder)
      // PostgreSQL's sockets may get a folder beside the data directory.
      const bench = own && (await readdir(join(folder, own))).find((name) => name.startsWith('keyhook-bench-'))
      if (bench === undefined) continue
      cluster = join(folder, own!, bench, 'postgres')
      const lock = await readLockFile(cluster).catch(() => undefined)
      if (lock?.ready) pid = lock.pid
    }
    expect(await isPostgresOn(cluster, pid)).toBe(true)
    child.kill(signal)
    expect(await ended).toEqual([null, signal])
    expect(() => process.kill(pid, 0)).toThrow()
    expect(await readdir(folder)).toEqual([])
  },
)
