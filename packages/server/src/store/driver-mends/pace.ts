import type { Mend } from '../../kernel/mend-library.ts'

/** When a query leaves, behind whom it waits and for how long, and how long its record stays. */
export const pace: readonly Mend[] = [
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
