import { existsSync } from 'node:fs'
import type { RunAs } from '../../../postgres/start-program.ts'
import { type Group, type InstanceLimits, openCgroups } from './cgroups.ts'

const checkMs = 1_000
const prlimit = '/usr/bin/prlimit'
/** A session gets an error of PostgreSQL at this share, and the kernel need not end it. */
const processShare = 0.5
/** Without cgroups nothing limits the sum, so that each gets less. */
const processShareAlone = 0.25

export type LimitReport = { by: 'cgroups v2' | 'cgroups v1' | 'rlimits' | 'nothing'; problem: string | null }

export type Limiter = ReturnType<typeof createLimiter>

/** Limits memory, processes and processor time of each instance: by cgroups where they can be created, else by limits of each process. */
export function createLimiter(deps: {
  home: string
  limits: InstanceLimits
  onOutOfMemory(id: string, kills: number): void
}) {
  const { limits } = deps
  const opened = openCgroups(deps.home)
  const cgroups = 'cgroups' in opened ? opened.cgroups : undefined
  const groups = new Map<string, { group: Group; kills: number }>()
  const hasRlimits = process.platform === 'linux' && existsSync(prlimit)

  const timer = setInterval(() => {
    for (const [id, one] of groups) {
      const kills = one.group.outOfMemoryKills()
      if (kills > one.kills) deps.onOutOfMemory(id, kills - one.kills)
      one.kills = kills
    }
  }, checkMs).unref()

  /** Sessions, and what they do in parallel, are ended before the server itself when memory runs out. */
  const preferSessions = ['/usr/bin/env', 'PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj', 'PG_OOM_ADJUST_VALUE=500']

  /** Data of each process, without memory that they share. The number of processes is limited by PostgreSQL's own settings. */
  const dataBytes = Math.floor(limits.memoryBytes * (cgroups === undefined ? processShareAlone : processShare))
  const rlimits = hasRlimits ? [prlimit, `--data=${dataBytes}`, '--core=0'] : []

  const close = () => {
    clearInterval(timer)
    process.off('exit', close)
    cgroups?.close()
  }
  // For a process.exit() without a stop, as Ctrl-C during the first start: empty groups would stay.
  process.once('exit', close)

  const report: LimitReport = {
    by: cgroups !== undefined ? `cgroups ${cgroups.version}` : hasRlimits ? 'rlimits' : 'nothing',
    problem: 'problem' in opened ? opened.problem : null,
  }
  return {
    report,
    /** What starts and holds the programs of an instance. */
    limit(id: string, runAs: RunAs): RunAs {
      const before = [...rlimits, ...preferSessions, ...(runAs.before ?? [])]
      if (cgroups === undefined) return { ...runAs, before }
      const group = cgroups.group(id, limits)
      // After a restart the count goes on, or the kill that was its reason would be missed.
      groups.set(id, { group, kills: groups.get(id)?.kills ?? group.outOfMemoryKills() })
      return {
        ...runAs,
        before,
        onStart(pid) {
          group.add(pid)
          runAs.onStart?.(pid)
        },
      }
    },
    /** The instance has ended. */
    forget(id: string): void {
      groups.get(id)?.group.remove()
      groups.delete(id)
    },
    close,
  }
}
