/*
 * Arrays as PostgreSQL reads them. The driver would write them too, looking at every element for what it might be; where
 * thousands of attempts a second are written down, that was a sixteenth of all that Node did.
 */

/** Numbers, ids, codes: nothing in them needs a quote. */
export const plainArray = (elements: readonly (number | string | null)[]): string => {
  let literal = '{'
  for (let i = 0; i < elements.length; i++) literal += (i === 0 ? '' : ',') + (elements[i] ?? 'NULL')
  return `${literal}}`
}

/** Any text. */
export const textArray = (elements: readonly (string | null)[]): string => {
  let literal = '{'
  for (let i = 0; i < elements.length; i++) {
    const element = elements[i] ?? null
    literal += (i === 0 ? '' : ',') + (element === null ? 'NULL' : `"${escaped(element)}"`)
  }
  return `${literal}}`
}

const needsEscape = /["\\]/
const escaped = (text: string): string => (needsEscape.test(text) ? text.replace(/["\\]/g, '\\$&') : text)
