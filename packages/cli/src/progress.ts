import { setTimeout } from 'node:timers/promises'
import { OperationFailed } from './output.ts'
import { styled } from './style.ts'

type Progress = {
  label: string
  done?: number
  total?: number | null
  /** How `done` and `total` are shown; as bytes, unless given. */
  amount?(value: number): string
}

const pollMs = 250
const barColumns = 30

/**
 * Reads a record until its operation has ended, and shows how far it is: on standard error, and only on a terminal. Scripts
 * get the result alone.
 */
export async function waitFor<Record>(
  read: () => Promise<Record>,
  isOver: (record: Record) => boolean,
  show: (record: Record) => Progress,
): Promise<Record> {
  const startedAt = performance.now()
  const isShown = process.stderr.isTTY === true
  for (;;) {
    const record = await read()
    if (isOver(record)) {
      if (isShown) process.stderr.write('\r\x1b[K')
      return record
    }
    if (isShown) process.stderr.write(`\r\x1b[K${progressText(show(record), performance.now() - startedAt)}`)
    await setTimeout(pollMs)
  }
}

type Operation = { id: string; status: string; failure: string | null }

/** Waits for the end of an operation. Throws if it failed. */
export async function untilEnded<Record extends Operation>(
  what: string,
  read: () => Promise<Record>,
  show: (record: Record) => Progress,
): Promise<Record> {
  const record = await waitFor(read, ({ status }) => ['available', 'completed', 'failed'].includes(status), show)
  if (record.status === 'failed') throw new OperationFailed(`The ${what} ${record.id} failed: ${record.failure}`)
  return record
}

function progressText({ label, done = 0, total = null, amount = bytesText }: Progress, elapsedMs: number): string {
  const seconds = `${Math.floor(elapsedMs / 1_000)} s`
  if (total === null || total === 0) return `${label} … ${seconds}`
  const share = Math.min(1, done / total)
  const filled = Math.floor(share * barColumns)
  const bar = styled('green', '█'.repeat(filled), process.stderr) + '░'.repeat(barColumns - filled)
  return `${label} ${bar} ${String(Math.floor(share * 100)).padStart(3)} %  ${amount(done)} of ${amount(total)}  ${seconds}`
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** Like 12.3 MiB: in the units of the console, and of the server's texts and settings. */
export function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0]
  while (value >= 1_024 && unit < units.length - 1) {
    value /= 1_024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
