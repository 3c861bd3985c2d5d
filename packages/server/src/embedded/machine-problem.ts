/** A problem of the machine, and not of Keyhook, that keeps PostgreSQL from running. */
export type MachineProblem = 'no-room' | 'read-only' | 'nameless-user' | 'few-files'

const signs: { problem: MachineProblem; codes: string[]; words: RegExp }[] = [
  {
    problem: 'no-room',
    codes: ['ENOSPC', 'EDQUOT', '53100'],
    words: /No space left on device|Disk quota exceeded|Check free disk space/,
  },
  { problem: 'read-only', codes: ['EROFS'], words: /Read-only file system/ },
  { problem: 'nameless-user', codes: [], words: /could not look up effective user ID/ },
  { problem: 'few-files', codes: ['EMFILE'], words: /\bEMFILE\b|insufficient file descriptors|Too many open files/ },
]

/** Looks at the error code and at a program's last lines, in the error and in its causes. */
export function machineProblem(error: unknown): MachineProblem | null {
  if (!(error instanceof Error)) return null
  const { code } = error as { code?: unknown }
  const sign = signs.find(({ codes, words }) => codes.includes(String(code)) || words.test(error.message))
  return sign?.problem ?? machineProblem(error.cause)
}
