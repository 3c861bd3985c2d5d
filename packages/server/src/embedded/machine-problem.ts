/** This machine or user cannot run PostgreSQL. The message is for the operator. */
export class MachineUnfit extends Error {
  override readonly name = 'MachineUnfit'
}

/** A problem of the machine, and not of Keyhook, that keeps PostgreSQL from running. */
export type MachineProblem = 'no-room' | 'read-only' | 'nameless-user' | 'only-root' | 'few-files'

const signs: { problem: MachineProblem; codes: string[]; message: RegExp }[] = [
  {
    problem: 'no-room',
    codes: ['ENOSPC', 'EDQUOT', '53100'],
    message: /No space left on device|Disk quota exceeded|Check free disk space/,
  },
  { problem: 'read-only', codes: ['EROFS'], message: /Read-only file system/ },
  { problem: 'nameless-user', codes: [], message: /could not look up effective user ID/ },
  {
    problem: 'only-root',
    codes: [],
    message:
      /\b(EPERM|EINVAL)\b[^\n]* l?chown\b|\bspawn\b[^\n]* (EPERM|EINVAL)\b|chown: .*(Operation not permitted|Invalid argument)/,
  },
  { problem: 'few-files', codes: ['EMFILE'], message: /\bEMFILE\b|insufficient file descriptors|Too many open files/ },
]

/** Looks at the error code and at a program's last lines, in the error and in its causes. */
export function machineProblem(error: unknown): MachineProblem | null {
  if (!(error instanceof Error)) return null
  const { code } = error as { code?: unknown }
  const sign = signs.find(({ codes, message }) => codes.includes(String(code)) || message.test(error.message))
  return sign?.problem ?? machineProblem(error.cause)
}
