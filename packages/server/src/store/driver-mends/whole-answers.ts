import type { Mend } from '../../kernel/mend-library.ts'

/** After a statement that failed, or whose preparation was lost, answers were not whole, or somebody else's. */
export const wholeAnswers: readonly Mend[] = [
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
]
