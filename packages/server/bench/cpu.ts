import { readdir, readFile } from 'node:fs/promises'
import type { Database } from '../src/db/database.ts'

/** Microseconds of CPU that the server's processes have used so far; zero where there is no /proc to read it from. */
export async function postgresCpuUs(db: Database): Promise<number> {
  const [mine] = await db`select pg_backend_pid() as pid`
  const postmaster = await parentOf(mine!.pid)
  if (postmaster === null) return 0
  let us = 0
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    if ((await parentOf(pid)) !== postmaster) continue
    const stat = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '0')
    us += Number(stat.split(' ')[0]) / 1_000
  }
  return us
}

async function parentOf(pid: number | string): Promise<number | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  // The name in brackets may contain spaces and brackets: the numbers are after the last bracket.
  return stat === null ? null : Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

/** The same of one process with all its threads, to a hundredth of a second. */
export async function processCpuUs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number)
  return (user + system) * 10_000
}
