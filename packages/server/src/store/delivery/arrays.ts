import { randomUUID } from 'node:crypto'
import type { Database } from '../../db/database.ts'

/*
 * Columns of many rows at once, as PostgreSQL reads them soonest. The driver writes arrays too, with quotes and two looks for
 * what to escape at every number and id; where thousands of attempts a second are written down, that is a twelfth of all
 * that Node does.
 */

/** Numbers, ids, codes, addresses: nothing in them needs a quote. */
export const plainArray = (elements: readonly (number | string | null)[]): string =>
  `{${elements.map((element) => element ?? 'NULL').join(',')}}`

const unitSeparator = '\x1f'
const recordSeparator = '\x1e'

/**
 * Any text. An array that is written out is read character by character; a text that is only to be taken apart is searched,
 * in half the time. What parts it must not be in it: mostly a character that nobody writes will do.
 */
export function textArray(db: Database, elements: readonly (string | null)[]) {
  // Nothing between two marks is either no text or an empty one.
  if (elements.length < 2) return db`${[...elements]}::text[]`
  const isMarked = (text: string | null) => text?.includes(unitSeparator) || text?.includes(recordSeparator)
  const [end, none] = elements.some(isMarked) ? [randomUUID(), randomUUID()] : [unitSeparator, recordSeparator]
  return db`string_to_array(${elements.map((element) => element ?? none).join(end)}, ${end}, ${none})`
}
