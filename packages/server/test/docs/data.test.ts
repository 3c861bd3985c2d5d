import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { rowsPerStep } from '../../src/deletion/erasure.ts'
import { keptHours } from '../../src/http/idempotency.ts'
import { finishedSeconds } from '../../src/jobs/queue.ts'
import { idleHours, lifetimeDays } from '../../src/login/console-sessions.ts'
import { invitationDays } from '../../src/organizations/sql.ts'

const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../../../docs/${path}`, import.meta.url)), 'utf8')
const page = read('data.md')
const kept = (what: string) => page.split('\n').find((line) => line.startsWith(`| ${what}`))

test('how long data is kept is what the code does', () => {
  expect(kept('Invitations')).toContain(`${invitationDays} days`)
  expect(kept('Sessions')).toContain(`${idleHours} hours after the last use, and ${lifetimeDays} days after`)
  expect(kept('Answers')).toContain(`${keptHours} hours`)
  expect(kept('Finished jobs')).toContain(`${finishedSeconds / 3_600} hour`)
  expect(read('decisions/README.md')).toContain(`transactions of at most ${rowsPerStep.toLocaleString('en')} rows`)
})
