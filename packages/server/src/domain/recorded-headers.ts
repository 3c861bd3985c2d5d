/*
 * Headers as they are recorded: one line each, as on the wire. JSON has many quotes, and escaping them for the database cost a
 * twentieth of all that sending takes.
 */

/** `flat` is name, value, name, value, without line breaks. */
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
  // Not by assignment: a header may be named __proto__.
  Object.defineProperty(headers, name, { value: now, enumerable: true, configurable: true, writable: true })
}
