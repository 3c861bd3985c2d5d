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

export const setting = <T>(
  variable: string,
  fallback: string,
  parse: Parse<T>,
  about: string,
): Setting<T> & { fallback: string } => ({ variable, fallback, parse, about })

export const optional = <T>(
  variable: string,
  parse: Parse<T>,
  about: string,
  secret?: true,
): Setting<T> & { fallback: null } => ({ variable, fallback: null, parse, about, ...(secret && { secret }) })

export const integer = (min: number, max: number, what: string): Parse<number> => {
  const parse = (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) throw new InvalidValue(`is not ${what} (${min} to ${max})`)
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
