import { expect, test } from 'vitest'
import { loggedError } from '../../src/log.ts'

test('a line tells of an error what happened and where, and nothing that a library hung on it', () => {
  const cause = Object.assign(new Error('reset'), { code: 'ECONNRESET', options: { password: 'hunter2' } })
  const error = Object.assign(new TypeError('lost', { cause }), {
    client: { connectionParameters: { password: 'hunter2' } },
    detail: 'Key (hash)=(hunter2) already exists.',
  })
  const line = JSON.stringify(loggedError(error))
  expect(line).not.toContain('hunter2')
  expect(JSON.parse(line)).toMatchObject({
    type: 'TypeError',
    message: 'lost',
    stack: expect.stringContaining('log.test'),
    cause: { message: 'reset', code: 'ECONNRESET' },
  })
})
