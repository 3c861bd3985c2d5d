import { chmod, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Processes may still be ending when the last test has ended. */
const waitMsMax = 5_000

/**
 * Gives a test run one folder for all that it writes to disk: temporary folders, the state directory of root's clusters, and
 * compiled code. When the run ends, the folder has to be empty, and no process may be left that uses it.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'kh-test-'))
  // As /tmp: processes of other users work in it too, such as the PostgreSQL of root.
  await chmod(folder, 0o1777)
  process.env.TMPDIR = folder
  process.env.STATE_DIRECTORY = join(folder, 'state')
  process.env.NODE_COMPILE_CACHE = join(folder, 'compiled')
  await mkdir(process.env.STATE_DIRECTORY)
  return async () => {
    const processes = await processesLeft(folder)
    const folders = await foldersLeft(folder)
    for (const { pid } of processes) process.kill(pid, 'SIGKILL')
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    const left = [...processes.map(({ pid, command }) => `process ${pid}: ${command}`), ...folders]
    if (left.length === 0) return
    console.error(`The tests left behind:\n${left.map((one) => `  ${one}\n`).join('')}`)
    process.exitCode = 1
  }
}

/** Temporary folders and files, and clusters in the state directory. */
async function foldersLeft(folder: string): Promise<string[]> {
  const list = async (path: string) => (await readdir(path).catch(() => [])).map((name) => join(path, name))
  const own = [process.env.STATE_DIRECTORY, process.env.NODE_COMPILE_CACHE]
  const temporary = (await list(folder)).filter((path) => !own.includes(path))
  return [...temporary, ...(await list(join(folder, 'state/clusters')))]
}

type Process = { pid: number; command: string }

/** A process of the run has the folder in its environment or in its arguments. A process with an open port is one of them. */
async function processesLeft(folder: string): Promise<Process[]> {
  const deadline = Date.now() + waitMsMax
  for (;;) {
    const left = await processesOf(folder)
    if (left.length === 0 || Date.now() > deadline) return left
    await sleep(100)
  }
}

/** Empty where there is no /proc. Leaves out this process and its children, which are the runner and its workers. */
async function processesOf(folder: string): Promise<Process[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async (pid): Promise<Process[]> => {
      // Processes end while we look, and those of other users cannot be read.
      const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')
      const [command, environment, status] = await Promise.all([read('cmdline'), read('environ'), read('status')])
      const parent = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1])
      const isRunner = Number(pid) === process.pid || parent === process.pid
      if (isRunner || !`${command}${environment}`.includes(folder)) return []
      return [{ pid: Number(pid), command: command.replaceAll('\0', ' ').trim() }]
    }),
  )
  return found.flat()
}
