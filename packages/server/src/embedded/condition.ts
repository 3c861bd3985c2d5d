/** What of the machine, and not of Keyhook, keeps PostgreSQL from running. */
export type Condition = 'no-room' | 'read-only' | 'nameless-user' | 'few-files'

const signs: { condition: Condition; codes: string[]; words: RegExp }[] = [
  {
    condition: 'no-room',
    codes: ['ENOSPC', 'EDQUOT', '53100'],
    words: /No space left on device|Disk quota exceeded|Check free disk space/,
  },
  { condition: 'read-only', codes: ['EROFS'], words: /Read-only file system/ },
  { condition: 'nameless-user', codes: [], words: /could not look up effective user ID/ },
  { condition: 'few-files', codes: ['EMFILE'], words: /\bEMFILE\b|insufficient file descriptors|Too many open files/ },
]

/** By the code of the system or of PostgreSQL, or by a program's last words; in the error itself or in what it came from. */
export function conditionIn(error: unknown): Condition | null {
  if (!(error instanceof Error)) return null
  const { code } = error as { code?: unknown }
  const sign = signs.find(({ codes, words }) => codes.includes(String(code)) || words.test(error.message))
  return sign?.condition ?? conditionIn(error.cause)
}
