import { readFileSync } from 'node:fs'
import type { Setting } from './setting.ts'

type Variables = Readonly<Record<string, string | undefined>>

/**
 * Secrets that are mounted as files: for each secret setting, `<variable>_FILE` may name a file with its value. Orchestrators mount
 * secrets that way, and an environment shows in `docker inspect` and in the process table.
 */
export function readSecretFiles(
  settings: readonly Setting<unknown>[],
  environment: Variables,
): { environment: Variables; problems: string[] } {
  const problems: string[] = []
  const read: Record<string, string> = {}
  for (const { variable } of settings.filter(({ secret }) => secret)) {
    const file = environment[`${variable}_FILE`]?.trim()
    if (!file) continue
    if (environment[variable]?.trim()) {
      problems.push(`${variable}_FILE: ${variable} is set too, and only one of them may be`)
      continue
    }
    try {
      read[variable] = readFileSync(file, 'utf8')
      if (read[variable].trim() === '') problems.push(`${variable}_FILE: "${file}" is empty`)
    } catch (error) {
      problems.push(`${variable}_FILE: "${file}" cannot be read (${(error as NodeJS.ErrnoException).code})`)
    }
  }
  return { environment: { ...environment, ...read }, problems }
}
