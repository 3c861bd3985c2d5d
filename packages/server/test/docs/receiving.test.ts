import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { sampleData } from '../../src/domain/event-samples.ts'
import { eventTypes } from '../../src/domain/event-types.ts'

const text = readFileSync(new URL('../../../../docs/receiving-webhooks.md', import.meta.url), 'utf8')

test('the table of events has every type, with the fields of its data', () => {
  const rows = [...text.matchAll(/^\| `(\w+\.\w+)` \| (.+) \|$/gm)].map(([, type, fields]) => [
    type,
    [...fields!.matchAll(/`(\w+)`/g)].map(([, field]) => field),
  ])
  expect(rows).toEqual(eventTypes.map((type) => [type, Object.keys(sampleData(type))]))
})
