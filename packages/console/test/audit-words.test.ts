import type { AuditEntry } from '@keyhook/client'
import { expect, test } from 'vitest'
import { auditActions } from '../../server/src/access/audit.ts'
import { grouped, sentenceOf, sentences } from '../src/pages/audit/audit-sentences.ts'
import { actionTexts } from '../src/pages/audit/audit-words.ts'

const entryOf = (changes: Partial<AuditEntry>): AuditEntry => ({
  id: 'aud_1',
  at: '2026-01-31T12:00:00.000Z',
  action: 'key.created',
  actor: { kind: 'login', user_id: 'usr_1', credential: 'tok_1', address: null, name: 'Ada', key_name: null },
  target_id: 'key_1',
  target_name: 'ci',
  details: {},
  ...changes,
})

test('every action of the server has a text and a sentence, and no other action has', () => {
  const known = [...auditActions].sort()
  expect(Object.keys(actionTexts).sort()).toEqual(known)
  expect(Object.keys(sentences).sort()).toEqual(known)
})

test.each([...auditActions])('the sentence of %s is one without details too', (action) => {
  const { before, target, after } = sentenceOf(entryOf({ action }))
  expect(`${before}${target ?? ''}${after}`).toMatch(/^[a-z][^{}]+$/)
  expect(`${before}${after}`).not.toMatch(/undefined|null|NaN/)
})

test('a target without a name is its id, and an action of a newer server its name', () => {
  expect(sentenceOf(entryOf({ target_name: null }))).toEqual({
    before: 'created the API key ',
    target: 'key_1',
    after: '',
  })
  const newer = entryOf({ action: 'moon.reached' as AuditEntry['action'] })
  expect(sentenceOf(newer)).toEqual({ before: 'moon.reached: ', target: 'ci', after: '' })
})

test('entries that follow each other with the same action of the same actor are one group', () => {
  const byKey = entryOf({}).actor
  const entries = [
    entryOf({ id: 'aud_6' }),
    // A page of the console has a new token every few minutes.
    entryOf({ id: 'aud_5', actor: { ...entryOf({}).actor, credential: 'tok_2' } }),
    entryOf({ id: 'aud_4', action: 'key.revoked' }),
    entryOf({ id: 'aud_3' }),
    entryOf({ id: 'aud_2', actor: { ...byKey, kind: 'key', credential: 'key_8' } }),
    entryOf({ id: 'aud_1', actor: { ...byKey, kind: 'key', credential: 'key_9' } }),
  ]
  expect(grouped(entries).map((group) => group.map(({ id }) => id))).toEqual([
    ['aud_6', 'aud_5'],
    ['aud_4'],
    ['aud_3'],
    ['aud_2'],
    ['aud_1'],
  ])
})

test('a redelivery names the webhook, and reports of several events name their number', () => {
  const redelivered = entryOf({
    action: 'delivery.redelivered',
    target_id: 'dlv_1',
    target_name: 'https://acme.example/',
  })
  expect(sentenceOf(redelivered)).toMatchObject({ target: 'https://acme.example/' })
  const reported = (events: number) =>
    entryOf({ action: 'event.reported', target_name: 'invoice.paid', details: { events } })
  expect(sentenceOf(reported(4))).toEqual({ before: 'reported 4 events', target: null, after: '' })
  expect(grouped([reported(4), reported(4), reported(1)]).map((group) => group.length)).toEqual([2, 1])
})

test('test events of different types are different things', () => {
  const tested = (id: string, event_type: string) => entryOf({ id, action: 'webhook.tested', details: { event_type } })
  const entries = [tested('aud_3', 'invoice.paid'), tested('aud_2', 'invoice.paid'), tested('aud_1', 'backup.failed')]
  expect(grouped(entries).map((group) => group.length)).toEqual([2, 1])
})

test('the sentence about suspended webhooks has the hours', () => {
  const said = (to: number | null) =>
    sentenceOf(entryOf({ action: 'organization.webhook_suspension_set', details: { from: 24, to } })).before
  expect([48, 1, 0, null].map(said)).toEqual([
    'set that webhooks are suspended after 48 hours of failing',
    'set that webhooks are suspended after an hour of failing',
    'set that webhooks that fail are never suspended',
    'left it to the operator when webhooks that fail are suspended',
  ])
})
