import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** One environment variable: its name, default, description and parser. */
export type Setting<T> = {
  variable: string
  /** The default; null where there is none. */
  fallback: string | null
  about: string
  secret?: true
  parse: Parse<T>
}

/** `takes` describes the allowed values for people, where a few words are enough. */
type Parse<T> = ((text: string, environment: Readonly<Record<string, string | undefined>>) => T) & { takes?: string }

/** Thrown by a parser; the message continues the sentence `NAME: "value" …`. */
export class InvalidValue extends Error {}

/** A setting with a default. `about` adds the text for people. */
export const setting = <T>(variable: string, fallback: string, parse: Parse<T>) => ({
  about: (about: string): Setting<T> & { fallback: string } => ({ variable, fallback, parse, about }),
})

export const optional = <T>(variable: string, parse: Parse<T>) => ({
  about: (about: string): Setting<T> & { fallback: null } => ({ variable, fallback: null, parse, about }),
})

export const secret = <T>(variable: string, parse: Parse<T>) => ({
  about: (about: string) => ({ ...optional(variable, parse).about(about), secret: true as const }),
})

export const integer = (min: number, max: number, what: string): Parse<number> => {
  const parse = (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) throw new InvalidValue(`is not ${what} (${min} to ${max})`)
    return value
  }
  return Object.assign(parse, { takes: `${min} to ${max}` })
}

export const count = (min: number, max: number, of: string): Parse<number> => integer(min, max, `a number of ${of}`)

const units: Readonly<Record<string, number>> = { '': 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }

/** A number of bytes with a unit as PostgreSQL writes it, such as 512MB or 10GB. */
export const bytes = (min: string, max: string): Parse<number> => {
  const read = (text: string): number => {
    const [, digits, unit = ''] = /^(\d{1,15})(KB|MB|GB|TB)?$/.exec(text) ?? []
    return digits === undefined ? Number.NaN : Number(digits) * units[unit]!
  }
  const parse = (text: string): number => {
    const value = read(text)
    if (!(value >= read(min) && value <= read(max))) throw new InvalidValue(`is not a size (${min} to ${max})`)
    return value
  }
  return Object.assign(parse, { takes: `${min} to ${max}` })
}

export const oneOf = <const T extends string>(...allowed: T[]): Parse<T> => {
  const parse = (text: string): T => {
    const found = allowed.find((candidate) => candidate === text)
    if (found === undefined) throw new InvalidValue(`is not one of ${allowed.join(', ')}`)
    return found
  }
  return Object.assign(parse, { takes: allowed.join(', ') })
}

export const matching =
  (shape: RegExp, what: string) =>
  (text: string): string => {
    if (!shape.test(text)) throw new InvalidValue(`is not ${what}`)
    return text
  }

export const text = (value: string): string => value

/** Read at the start, so that a missing file is reported then and not when it is first used. */
export const certificateFile =
  (advice: string) =>
  (path: string): string => {
    try {
      const pem = readFileSync(path, 'utf8')
      new X509Certificate(pem)
      return pem
    } catch (error) {
      throw new InvalidValue(`is not a readable file of PEM certificates (${(error as Error).message}); ${advice}`)
    }
  }

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
