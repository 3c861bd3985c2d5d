import { createHash } from 'node:crypto'

/** Rows, and how many rows the statement returned or changed. */
export type Rows<T> = T & { readonly count: number }
// biome-ignore lint/suspicious/noExplicitAny: columns without a row type may be used as they are.
export type Row = Record<string, any>

type Run = (statement: Fragment) => Promise<unknown>

/**
 * SQL with its values, made by a tagged template. Awaited, it is sent; used as a value of another template, it becomes a part of
 * that one. Values never become part of the text.
 */
export class Statement<T> implements Promise<Rows<T>> {
  readonly strings: readonly string[]
  readonly values: readonly unknown[]
  readonly #run: Run
  #answer: Promise<Rows<T>> | undefined

  constructor(run: Run, strings: readonly string[], values: readonly unknown[]) {
    this.#run = run
    this.strings = strings
    this.values = values
  }

  /** Sends it, once however often it is awaited. */
  run(): Promise<Rows<T>> {
    this.#answer ??= this.#run(this) as Promise<Rows<T>>
    return this.#answer
  }

  // biome-ignore lint/suspicious/noThenProperty: a statement is awaited like a promise, and sent only then.
  then<A = Rows<T>, B = never>(
    done?: ((rows: Rows<T>) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.run().then(done, failed)
  }

  catch<B = never>(failed?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Rows<T> | B> {
    return this.run().catch(failed)
  }

  finally(done?: (() => void) | null): Promise<Rows<T>> {
    return this.run().finally(done)
  }

  readonly [Symbol.toStringTag] = 'Statement'
}

/** A statement that is a part of another one, or whose rows do not matter. */
export type Fragment = Statement<unknown>

export type Compiled = { text: string; name: string; values: unknown[] }

/** Text and name of templates without parts: nearly all of them, so they are assembled once. */
const whole = new WeakMap<readonly string[], { text: string; name: string }>()
const names = new Map<string, string>()

/**
 * The name under which PostgreSQL keeps the prepared statement. A hash of the text: behind a pooler two processes may share a
 * connection, and a name must never stand for another text.
 */
function nameOf(text: string): string {
  const known = names.get(text)
  if (known !== undefined) return known
  const name = `keyhook_${createHash('sha256').update(text).digest('hex').slice(0, 40)}`
  names.set(text, name)
  return name
}

/** SQL that was assembled once at start, with numbered values. */
export const prepared = (text: string, values: readonly unknown[]): Compiled => ({
  text,
  name: nameOf(text),
  values: values as unknown[],
})

export function compile({ strings, values }: Fragment): Compiled {
  const known = whole.get(strings)
  if (known !== undefined) return { ...known, values: values as unknown[] }
  const parts: string[] = []
  const flat: unknown[] = []
  append(strings, values, parts, flat)
  const text = parts.join('')
  const compiled = { text, name: nameOf(text) }
  if (!values.some((value) => value instanceof Statement)) whole.set(strings, compiled)
  return { ...compiled, values: flat }
}

function append(strings: readonly string[], values: readonly unknown[], parts: string[], flat: unknown[]): void {
  strings.forEach((string, i) => {
    parts.push(string)
    if (i >= values.length) return
    const value = values[i]
    if (value instanceof Statement) append(value.strings, value.values, parts, flat)
    else parts.push(`$${flat.push(value)}`)
  })
}
