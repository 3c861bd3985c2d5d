import type postgresDriver from 'postgres'
import { importMended, type Mend } from '../kernel/mend-library.ts'

/*
 * The driver, mended while it is loaded. What postgres 3.4.9 does when a connection or a prepared statement is lost would end the
 * process, stop deliveries for good or give somebody another's answer, and none of it can be caught from outside. Once a release
 * has these, this file can go.
 */
const mends: readonly Mend[] = [
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
  // A short query was written only after everything that had arrived meanwhile was read and worked on: it leaves when whoever
  // asked has nothing more to say.
  {
    file: 'postgres/src/connection.js',
    from: '(nextWriteTimer = setImmediate(nextWrite))',
    to: '(nextWriteTimer = true, process.nextTick(() => chunk && nextWrite()))',
  },
  {
    file: 'postgres/src/connection.js',
    from: '    nextWriteTimer !== null && clearImmediate(nextWriteTimer)\n',
    to: '',
  },
  // A write that was waiting when the connection went left its mark, and on the next connection nothing was ever written.
  {
    file: 'postgres/src/connection.js',
    from: '\n    clearImmediate(nextWriteTimer)\n',
    to: '\n    chunk = nextWriteTimer = null\n',
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
  // The rows of a statement that failed half way, or whose connection did, were counted in the next answer on that connection:
  // as many places before its first row were empty, and whoever asks for one row found none.
  {
    file: 'postgres/src/connection.js',
    from: '    result = new Result()\n    connectTimer.cancel()\n',
    to: '    result = new Result()\n    rows = 0\n    connectTimer.cancel()\n',
  },
  // A query whose prepared statement is gone is sent again. What it carried had been written out for PostgreSQL, and was written
  // out once more: true became false, and JSON a text. And its types were asked for first, on a connection on which others were
  // sent meanwhile, or were asking for theirs: what came between such a question and the rest got another's answer. It goes
  // through the pool, as at first, which sends nothing behind such a question; to be sure it is prepared anew, wherever that is.
  {
    file: 'postgres/src/connection.js',
    from: '    q.retried = error\n    execute(q)\n',
    to: '    if (status !== 73) return errored(error) // I\n    q.retried = error\n    q.handler(q)\n',
  },
  {
    file: 'postgres/src/connection.js',
    from: 'q.prepare && q.signature in statements',
    to: 'q.prepare && !q.retried && q.signature in statements',
  },
  {
    file: 'postgres/src/connection.js',
    from: 'Bind(q.parameters, q.statement.types, ',
    to: 'Bind(q.parameters, q.retried ? [] : q.statement.types, ',
  },
  // Within a transaction it is not sent again: PostgreSQL has given the transaction up, and a COMMIT sent again is taken, and means
  // a rollback. That of ours cannot be lost. Outside, what is said of it the second time is what counts.
  {
    file: 'postgres/src/connection.js',
    from: 'query.retried\n          ? errored(query.retried)\n          : query.prepared && ',
    to: 'query.prepared && ',
  },
  {
    file: 'postgres/src/connection.js',
    from: 'retry(query, errorResponse)',
    to: 'retry(query, errorResponse, x[5])',
  },
  {
    file: 'postgres/src/connection.js',
    from: 'function retry(q, error) {',
    to: 'function retry(q, error, status) {',
  },
  {
    file: 'postgres/src/index.js',
    from: 'await sql`commit`',
    to: "await sql.unsafe('commit')",
  },
  {
    file: 'postgres/src/index.js',
    from: 'sql`rollback`',
    to: "sql.unsafe('rollback')",
  },
  // A query with a value that cannot be written out (a date that is none) was waited for although nothing had been sent: the error
  // went to whoever was being answered, and from then on everybody on that connection got the answer of the one before.
  {
    file: 'postgres/src/connection.js',
    from: `      query
        ? sent.push(q)
        : (query = q, query.active = true)

      build(q)
      return write(toBuffer(q))
`,
    to: `      build(q)
      const x = toBuffer(q)
      query
        ? sent.push(q)
        : (query = q, query.active = true)
      return write(x)
`,
  },
  {
    file: 'postgres/src/connection.js',
    from: '      sent.length === 0 && write(Sync)\n      errored(error)\n',
    to: '      queryError(q, error)\n      query || (query = q, write(Sync))\n',
  },
  // A server that is gone without a word, or a firewall that has forgotten the connection, was waited for until the kernel
  // gave up, a quarter of an hour later. `silence`: so many milliseconds without an answer, and the connection is given up.
  {
    file: 'postgres/src/index.js',
    from: '    target_session_attrs: null\n  }\n',
    to: "    target_session_attrs: null,\n    silence: null,\n    on_begin: ''\n  }\n",
  },
  {
    file: 'postgres/src/connection.js',
    from: "      socket.on('data', data)\n",
    to: `      socket.on('data', data)
      if (options.silence) {
        socket.setTimeout(options.silence)
        socket.on('timeout', () => (initial || query || sent.length) && socket.destroy())
      }
`,
  },
  // What every transaction begins with. It goes out with its BEGIN: said afterwards it would be a way there and back more.
  {
    file: 'postgres/src/index.js',
    from: "options.replace(/[^a-z ]/ig, '')",
    to: "options.replace(/[^a-z ]/ig, '') + sql.options.on_begin",
  },
  // V8 puts a function among the old objects at once if it is written where it is assigned to a property: it takes it for a method,
  // which lives as long as the program. Here it was two for every query, and all that a query had carried and got hung on
  // them until the whole heap was looked through.
  {
    file: 'postgres/src/query.js',
    from: '    this.resolve = x => (this.active = false, resolve(x))\n    this.reject = x => (this.active = false, reject(x))\n\n    this.active = false\n',
    to: `    const onAnswer = x => (this.active = false, resolve(x))
    const onFailure = x => (this.active = false, reject(x))
    this.resolve = onAnswer
    this.reject = onFailure

    this.active = false
`,
  },
  // When no connection is idle, a query is sent behind another that has no answer yet. Behind one that waits for a lock it would
  // wait as long, whatever it asks for. `alone` (`sendAlone`): none is sent behind this one.
  {
    file: 'postgres/src/connection.js',
    from: '        && sent.length < max_pipeline\n',
    to: '        && sent.length < max_pipeline\n        && !q.alone\n',
  },
]

export const postgres: typeof postgresDriver = (await importMended(mends, () => import('postgres'))).default
