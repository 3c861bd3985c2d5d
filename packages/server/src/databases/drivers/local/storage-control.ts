import type { Database } from '../../../db/database.ts'
import type { DatabaseId } from '../../../lib/ids.ts'
import { ownerRole } from '../../database.ts'
import { measureDirectories } from '../../storage/disk.ts'
import type { LocalInstances } from '../driver.ts'
import { withControl } from './control.ts'
import type { Home } from './home.ts'
import type { Instance } from './instance.ts'
import { instanceDirectory, instancesIn } from './instance-directory.ts'

/** A statement of ours that takes longer is blocked by a customer's session. */
const statementMsMax = 60_000

type StorageControl = Pick<
  LocalInstances,
  'disk' | 'storage' | 'isRunning' | 'up' | 'setReadOnly' | 'checkpoint' | 'hold' | 'isHeld' | 'release'
>

/** What the storage monitor does to instances. */
export function createStorageControl(deps: {
  home(): Promise<Home>
  running: ReadonlyMap<DatabaseId, Instance>
  /** The ids that must not be started, with the end of their processes. */
  held: Map<DatabaseId, Promise<void>>
  halt(id: DatabaseId, how: { immediate: boolean }): Promise<void>
  resume: LocalInstances['resume']
}): StorageControl {
  const { running, held } = deps

  async function inSession(id: DatabaseId, signal: AbortSignal, work: (sql: Database) => Promise<void>): Promise<void> {
    const instance = running.get(id)
    if (instance === undefined) throw new Error(`${id} is not running`)
    await withControl(instance.control(), { name: 'keyhook storage', signal, statementMsMax }, work)
  }

  return {
    disk: async () => (await deps.home()).path,

    async storage(signal) {
      const home = await deps.home()
      const ids = new Map((await instancesIn(home)).map((id) => [instanceDirectory(home, id).path, id]))
      const sizes = await measureDirectories([...ids.keys()], signal)
      return new Map([...sizes].map(([path, bytes]) => [ids.get(path)!, bytes]))
    },

    isRunning: (id) => running.get(id)?.isUp() ?? false,

    up: () => [...[...running].filter(([, instance]) => instance.isUp()).map(([id]) => id), ...held.keys()],

    setReadOnly: (id, reason, { signal }) => inSession(id, signal, (sql) => changeReadOnly(sql, reason)),

    checkpoint: (id, { signal }) => inSession(id, signal, async (sql) => void (await sql`checkpoint`)),

    hold(id) {
      const ended = held.get(id) ?? deps.halt(id, { immediate: true })
      held.set(id, ended)
      return ended
    },

    isHeld: (id) => held.has(id),

    async release(id, { signal }) {
      await held.get(id)
      held.delete(id)
      try {
        await deps.resume(id, { signal })
      } catch (error) {
        held.set(id, Promise.resolve())
        throw error
      }
    },
  }
}

/** Not for the role: this needs no room in a table, takes effect in open sessions, and is in no dump. Owners switch it off to make room. */
async function changeReadOnly(sql: Database, reason: string | null): Promise<void> {
  const [row] = await sql<[{ now: string }]>`select current_setting('default_transaction_read_only') as now`
  const isOn = row.now === 'on'
  if (isOn === (reason !== null)) return
  if (reason === null) {
    await sql.unsafe('alter system reset default_transaction_read_only')
    await sql.unsafe('alter system reset keyhook.storage').catch(ignore)
    await sql`select pg_reload_conf()`
    return
  }
  await sql.unsafe('alter system set default_transaction_read_only = on')
  // PostgreSQL before 17 knows no such setting of ours; the reason is in the API as well.
  await sql.unsafe(`alter system set keyhook.storage = '${reason.replaceAll("'", "''")}'`).catch(ignore)
  await sql`select pg_reload_conf()`
  // A transaction that writes goes on writing, whatever the configuration says.
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where usename = ${ownerRole} and xact_start is not null and pid <> pg_backend_pid()`
}

const ignore = (): void => {}
