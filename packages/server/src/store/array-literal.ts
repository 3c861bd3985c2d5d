/*
 * Arrays as PostgreSQL reads them. The driver writes them too, with quotes and two looks for what to escape at every number
 * and id; where thousands of attempts a second are written down, that is a twelfth of all that Node does.
 */

/** Numbers, ids, codes, addresses: nothing in them needs a quote. */
export const plainArray = (elements: readonly (number | string | null)[]): string =>
  `{${elements.map((element) => element ?? 'NULL').join(',')}}`

/** Any text. */
export const textArray = (elements: readonly (string | null)[]): string =>
  `{${elements.map((element) => (element === null ? 'NULL' : `"${escaped(element)}"`)).join(',')}}`

const escaped = (text: string): string =>
  text.includes('"') || text.includes('\\') ? text.replace(/["\\]/g, '\\$&') : text
