import type undici from 'undici'
import { importMended } from '../../kernel/mend-library.ts'

/*
 * The HTTP client, mended while it is loaded. Whoever sends a request has to put up with a `100 Continue` that was not asked
 * for (RFC 9110, 15.2); undici 8.12 hangs up on it, and a receiver that says it would never be delivered to. All other
 * interim answers it reads and passes over, and so it does with this one now.
 *
 * And it looks up what its parser found wrong by number in a table of names, so that no error has a code: an answer that was
 * cut off could not be told from one that is not HTTP.
 */
const file = 'undici/lib/dispatcher/client-h1.js'
const mends = [
  { file, from: 'if (statusCode === 100) {', to: 'if (false) {' },
  {
    file,
    from: 'constants.ERROR[ret]',
    to: 'Object.keys(constants.ERROR).find((name) => constants.ERROR[name] === ret)',
  },
]

export const { Client }: Pick<typeof undici, 'Client'> = await importMended(mends, () => import('undici'))
