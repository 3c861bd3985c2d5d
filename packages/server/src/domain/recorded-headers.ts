/*
 * Headers as an attempt's record keeps them: a line each, as they are on the wire. JSON would say the same with a quote at
 * every turn, each of which has to be escaped on its way into the database: a twentieth of all that sending costs.
 */

/** Name, value, name, value; none of them holds the end of a line. */
export function recordHeaders(flat: readonly string[]): string {
  const lines: string[] = []
  for (let i = 0; i < flat.length; i += 2) lines.push(`${flat[i]}: ${flat[i + 1]}`)
  return lines.join('\n')
}

export type ReadHeaders = Record<string, string | string[]>

export function readHeaders(record: string): ReadHeaders {
  const headers: ReadHeaders = {}
  for (const line of record.split('\n')) {
    const end = line.indexOf(': ')
    if (end > 0) add(headers, line.slice(0, end), line.slice(end + 2))
  }
  return headers
}

function add(headers: ReadHeaders, name: string, value: string): void {
  const earlier = Object.hasOwn(headers, name) ? headers[name]! : null
  const now = earlier === null ? value : [earlier, value].flat()
  // Not by assignment: a header may be called __proto__.
  Object.defineProperty(headers, name, { value: now, enumerable: true, configurable: true, writable: true })
}
