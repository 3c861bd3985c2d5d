import type { Mend } from '../../kernel/mend-library.ts'

/** A connection that is lost ended the process, or stopped whatever was asked next for good. */
export const lostConnections: readonly Mend[] = [
  // A transaction whose connection is gone was rolled back on it: a write to no socket, from a callback of its own, which
  // ends the process (porsager/postgres issues 1066, 1154, 1208). Where the connection had come back, what the transaction
  // said next was said outside of it, and stayed.
  {
    file: 'postgres/src/index.js',
    from: '      , prepare = null\n',
    to: '      , prepare = null\n      , lost = null\n',
  },
  {
    file: 'postgres/src/index.js',
    from: 'connection.onclose = reject)',
    to: 'connection.onclose = error => reject(lost = error))',
  },
  {
    file: 'postgres/src/index.js',
    from: '        q.catch(e => uncaughtError || (uncaughtError = e))\n',
    to: '        q.catch(e => uncaughtError || (uncaughtError = e))\n        if (lost) return q.reject(lost)\n',
  },
  // The same for a connection that was reserved.
  {
    file: 'postgres/src/connection.js',
    from: '  function execute(q) {\n',
    to: "  function execute(q) {\n    if (!socket)\n      return queryError(q, Errors.connection('CONNECTION_CLOSED', options)), true\n",
  },
  // Types are asked for in a promise that nobody holds. The query that waits for them is sent on the next connection.
  {
    file: 'postgres/src/connection.js',
    from: 'return fetchArrayTypes()',
    to: 'return fetchArrayTypes().catch(() => {})',
  },
  // A query that came between the error of a socket and its end was never answered.
  {
    file: 'postgres/src/connection.js',
    from: '!hadError && (query || sent.length) && error(',
    to: ';(query || sent.length) && error(',
  },
  // A query that its connection took along was remembered on the next one. When that was refused at its start (no connection
  // left, a server that is starting up), the refusal was taken for the query's: nobody heard of it, what had been asked
  // waited for ever, and the driver connected again hundreds of times a second.
  {
    file: 'postgres/src/connection.js',
    from: '    closedTime = performance.now()\n',
    to: '    query = results = errorResponse = null\n    closedTime = performance.now()\n',
  },
]
