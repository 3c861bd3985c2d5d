import { chown } from 'node:fs/promises'
import { isStatementTimeout } from '../../db/database.ts'
import { clearOrphan } from '../../embedded/orphan.ts'
import { socketNameOf } from '../../embedded/socket-directory.ts'
import { runTool } from '../../embedded/tool.ts'
import type { DatabaseId } from '../../kernel/ids.ts'
import { compress } from '../archive/compress.ts'
import { type Address, type DatabaseDriver, StepFailure } from '../driver.ts'
import { step } from '../steps/step.ts'
import { baseBackup } from './base-backup.ts'
import { openControl, setOwnerPassword, untilAccepting } from './control.ts'
import type { Home } from './home.ts'
import { type Instance, type InstanceEvent, runInstance } from './instance.ts'
import {
  forgetPort,
  hasCluster,
  type InstanceDirectory,
  instanceDirectory,
  instancesIn,
  makeCluster,
  readPort,
  removeDirectory,
} from './instance-directory.ts'
import { createPorts, type PortRange } from './ports.ts'
import { createTemplate } from './template.ts'
import { unpack } from './unpack.ts'

export type LocalDriverOptions = {
  /** Opened when the first database is asked for: an installation without databases pays nothing. */
  home: () => Promise<Home>
  host: string
  /** The name under which clients find this machine, where that is not the address it listens on. */
  publicHost: string
  ports: PortRange
  onEvent: (id: DatabaseId, event: InstanceEvent) => void
  /** How long a backup waits for one answer of its database. */
  backupStatementMsMax?: number
}

/** A host that is null keeps it private to us. */
type Where = { port: number; host?: string | null }

const listenersSpare = 20
const heldUp =
  'The database did not come to a checkpoint in time, and a backup begins with one. One of its sessions may hold it up.'

/** Databases as PostgreSQL servers of this machine, one each, started from a prepared template directory. */
export function createLocalDriver(options: LocalDriverOptions): DatabaseDriver {
  const running = new Map<DatabaseId, Instance>()
  const closing = new AbortController()
  let opened: ReturnType<typeof open> | undefined
  let preparing: Promise<unknown> | undefined
  const parts = () => {
    opened ??= open(options, closing.signal).catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }

  function launch(home: Home, id: DatabaseId, port: number, host: string | null): Instance {
    const directory = instanceDirectory(home, id)
    const onEvent = (event: InstanceEvent) => options.onEvent(id, event)
    const instance = runInstance({ home, id, directory, host, port, onEvent })
    running.set(id, instance)
    // Each server has a listener for the end of this process; many of them are no leak.
    process.setMaxListeners(Math.max(process.getMaxListeners(), running.size + listenersSpare))
    return instance
  }

  async function run(home: Home, id: DatabaseId, where: Where, signal: AbortSignal): Promise<Instance> {
    signal.throwIfAborted()
    const { port, host = options.host } = where
    const instance = running.get(id) ?? launch(home, id, port, host)
    // After a crash it may replay its log for minutes: whoever removes it does not wait for that.
    const giveUp = () => void instance.stop({ atOnce: true })
    signal.addEventListener('abort', giveUp, { once: true })
    try {
      await instance.ready
    } catch (error) {
      running.delete(id)
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
    signal.throwIfAborted()
    return instance
  }

  async function halt(id: DatabaseId, how?: { atOnce: boolean }): Promise<void> {
    const instance = running.get(id)
    running.delete(id)
    await instance?.stop(how)
  }

  async function address(port: number, signal: AbortSignal): Promise<Address> {
    await untilAccepting({ host: options.host, port }, signal)
    return { host: options.publicHost, port }
  }

  return {
    async prepare() {
      preparing = parts().then(({ template }) => template.path())
      await preparing
    },

    async provision(id, { passwordVerifier, signal }) {
      const { home, template, ports } = await parts()
      const directory = instanceDirectory(home, id)
      await makeCluster(home, directory, async (workshop) => copyTemplate(home, await template.path(), workshop, id))
      signal.throwIfAborted()
      step('provision.starting', id)
      const port = await ports.portFor(directory.path)
      const instance = await run(home, id, { port }, signal).catch(forgetTakenPort(directory))
      step('provision.setting_password', id)
      await setOwnerPassword(instance.control(), passwordVerifier, signal)
      return address(port, signal)
    },

    async restore(id, { archive, passwordVerifier, onProgress, signal }) {
      const { home, ports } = await parts()
      const directory = instanceDirectory(home, id)
      step('restore.unpacking', id)
      await makeCluster(home, directory, async (workshop) => {
        await unpack(home, archive, workshop, { onProgress, signal })
      })
      signal.throwIfAborted()
      const port = await ports.portFor(directory.path)
      step('restore.recovering', id)
      // Private until the password of the source is gone: nobody who knows that one ever gets in here.
      await halt(id)
      const instance = await run(home, id, { port, host: null }, signal)
      await setOwnerPassword(instance.control(), passwordVerifier, signal)
      step('restore.restarting', id)
      await halt(id)
      await run(home, id, { port }, signal).catch(forgetTakenPort(directory))
      return address(port, signal)
    },

    backup(id, { onProgress, signal }) {
      const instance = running.get(id)
      if (instance === undefined) throw new StepFailure('The database is not running.')
      async function* bytes(): AsyncGenerator<Uint8Array> {
        const { cluster } = await directoryOf(id)
        const statementMsMax = options.backupStatementMsMax
        const { sql, close } = await openControl(instance!.control(), {
          name: 'keyhook backup',
          signal,
          statementMsMax,
        })
        try {
          yield* baseBackup({ id, cluster, sql, onProgress, signal })
        } catch (error) {
          // A connection that was cut says so in words of its own.
          signal.throwIfAborted()
          throw isStatementTimeout(error) ? new StepFailure(heldUp, { cause: error, lasting: true }) : error
        } finally {
          await close()
        }
      }
      return compress(bytes())
    },

    async remove(id) {
      const { home } = await parts()
      step('remove.stopping', id)
      // Nobody needs an orderly end of files that are deleted next, and a session may keep it waiting for ever.
      await halt(id, { atOnce: true })
      const directory = instanceDirectory(home, id)
      if (await hasCluster(directory)) {
        const port = await readPort(directory.path)
        const socket = socketNameOf(port ?? options.ports.first)
        await clearOrphan(directory.cluster, { note() {}, socket, patienceMs: 0 })
      }
      step('remove.deleting_files', id)
      await removeDirectory(home, id)
    },

    async existing() {
      return instancesIn((await parts()).home)
    },

    async resume(id, { signal }) {
      const { home } = await parts()
      const directory = instanceDirectory(home, id)
      const port = await readPort(directory.path)
      if (port === null || !(await hasCluster(directory))) throw new Error(`the files of ${id} are not on this node`)
      await run(home, id, { port }, signal)
    },

    async close() {
      closing.abort()
      await preparing?.catch(() => {})
      await Promise.all([...running.keys()].map((id) => halt(id)))
    },
  }

  async function directoryOf(id: DatabaseId): Promise<InstanceDirectory> {
    return instanceDirectory((await parts()).home, id)
  }
}

/** Somebody was faster between our look and the start. Nobody knows this port yet, so the next attempt takes another. */
const forgetTakenPort =
  ({ path }: InstanceDirectory) =>
  async (error: unknown): Promise<never> => {
    if (/could not (bind|create any TCP)/.test(String(error))) await forgetPort(path)
    throw error
  }

async function open(options: LocalDriverOptions, signal: AbortSignal) {
  const home = await options.home()
  return {
    home,
    template: createTemplate(home, signal),
    ports: createPorts({ home, host: options.host, range: options.ports }),
  }
}

/**
 * By `cp`, as the account that will own the copy: it shares blocks where the file system can (reflink), and does the
 * rest in one process of its own, away from our event loop.
 */
async function copyTemplate(home: Home, template: string, workshop: string, id: DatabaseId): Promise<void> {
  step('provision.copying', id)
  const { account, binaries } = home
  if (account) await chown(workshop, account.uid, account.gid)
  const share = process.platform === 'darwin' ? ['-c'] : []
  // Not join(), which would drop the dot, and with it "the contents of".
  await runTool('cp', ['-R', '-p', ...share, `${template}/.`, workshop], { account })
  await runTool(binaries.initdb, ['-D', workshop, '--sync-only'], { account })
}
