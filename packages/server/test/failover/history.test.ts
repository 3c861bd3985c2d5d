import { expect, test } from 'vitest'
import { emptyHistory, findViolations, type History, type Stored } from './support/history.ts'

/* The tests of failover are worth what their comparison finds. Each line here plants one broken promise. */

const sound = (): { history: History; stored: Stored } => ({
  history: {
    ...emptyHistory(),
    accepted: [
      { orgId: 'org_a', eventId: 'e1', sentAtMs: 0, atMs: 1 },
      { orgId: 'org_a', eventId: 'e2', sentAtMs: 1, atMs: 2 },
      { orgId: 'org_b', eventId: 'e1', sentAtMs: 2, atMs: 3 },
    ],
    keys: [
      { id: 'key_live', revokeSentAtMs: null, revokedAtMs: null },
      { id: 'key_dead', revokeSentAtMs: 10, revokedAtMs: 20 },
    ],
    uses: [
      { keyId: 'key_live', sentAtMs: 5, answeredAtMs: 6, isAccepted: true },
      { keyId: 'key_dead', sentAtMs: 5, answeredAtMs: 6, isAccepted: true },
      // In the middle of the revocation both answers are right.
      { keyId: 'key_dead', sentAtMs: 12, answeredAtMs: 13, isAccepted: true },
      { keyId: 'key_dead', sentAtMs: 14, answeredAtMs: 15, isAccepted: false },
      { keyId: 'key_dead', sentAtMs: 21, answeredAtMs: 22, isAccepted: false },
    ],
    received: [
      { delivery: 'w-a e1', signature: 's1', timestamp: '100', isSigned: true, sequence: 1, atMs: 1 },
      { delivery: 'w-a e1', signature: 's2', timestamp: '101', isSigned: true, sequence: 1, atMs: 2 },
      { delivery: 'w-a e2', signature: 's3', timestamp: '102', isSigned: true, sequence: 2, atMs: 3 },
      { delivery: 'w-b e1', signature: 's4', timestamp: '103', isSigned: true, sequence: 1, atMs: 4 },
    ],
  },
  stored: {
    events: [
      { orgId: 'org_a', id: 'e1', sequence: 1 },
      { orgId: 'org_a', id: 'e2', sequence: 2 },
      { orgId: 'org_b', id: 'e1', sequence: 1 },
    ],
    webhooks: [
      { orgId: 'org_a', name: 'w-a' },
      { orgId: 'org_b', name: 'w-b' },
    ],
    attempts: [
      { delivery: 'w-a e1', attempt: 1, signature: null, timestamp: '100' },
      { delivery: 'w-a e1', attempt: 2, signature: 's2', timestamp: '101' },
      { delivery: 'w-a e2', attempt: 1, signature: 's3', timestamp: '102' },
      { delivery: 'w-b e1', attempt: 1, signature: 's4', timestamp: '103' },
    ],
  },
})

test('a run that keeps every promise has no violations', () => {
  const { history, stored } = sound()
  expect(findViolations(history, stored)).toEqual([])
})

type Plant = (history: History, stored: Stored) => void
const planted: Record<string, [Plant, RegExp]> = {
  'an accepted event that is gone': [
    (_, stored) => void stored.events.splice(1, 1),
    /^event e2 was accepted and does not exist$/,
  ],
  'an event that is gone and had the number of another': [
    (_, stored) => {
      stored.events[1]!.id = 'e3'
    },
    /^event e2 was accepted and does not exist$/,
  ],
  'an event that no receiver got': [
    (history) => void history.received.splice(2, 1),
    /^event e2 did not reach webhook w-a$/,
  ],
  'a gap in the numbers': [
    (_, stored) => {
      stored.events[1]!.sequence = 3
    },
    /^org_a: event 2 has the number 3$/,
  ],
  'a number that was given twice': [
    (_, stored) => {
      stored.events[1]!.sequence = 1
    },
    /^org_a: event 2 has the number 1$/,
  ],
  'a request with the number of another event': [
    (history) => {
      history.received[2]!.sequence = 1
    },
    /^w-a e2: was sent with the number 1$/,
  ],
  'a request without an attempt': [
    (_, stored) => void stored.attempts.splice(3, 1),
    /^w-b e1: 1 requests and 0 recorded attempts$/,
  ],
  'a request that is not the one that was recorded': [
    (_, stored) => {
      stored.attempts[3]!.signature = 'other'
    },
    /^w-b e1: no recorded attempt has the signature s4$/,
  ],
  'an attempt that is gone': [
    (_, stored) => {
      stored.attempts[1]!.attempt = 3
    },
    /^w-a e1: attempt 2 has the number 3$/,
  ],
  'a wrong signature': [
    (history) => {
      history.received[2]!.isSigned = false
    },
    /^w-a e2: the signature is wrong$/,
  ],
  'a key that works after its revocation': [
    (history) => {
      history.uses[4]!.isAccepted = true
    },
    /^key key_dead was accepted 1 ms after its revocation was answered$/,
  ],
  'a key that is lost': [
    (history) => {
      history.uses[0]!.isAccepted = false
    },
    /^key key_live was refused although nobody had revoked it$/,
  ],
  'an answer that a caller cannot handle': [
    (history) => void history.unexpected.push('POST /events: 500'),
    /^POST \/events: 500$/,
  ],
}

test.each(Object.entries(planted))('the comparison finds %s', (_name, [plant, line]) => {
  const { history, stored } = sound()
  plant(history, stored)
  expect(findViolations(history, stored)).toContainEqual(expect.stringMatching(line))
})
