import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { isRole, permissionTable, reachOf, roles } from '../../src/access/roles.ts'
import { eventTypes } from '../../src/delivery/events.ts'
import { readRetryAfter, readRetrySchedule, retryDelayMs } from '../../src/delivery/retry-schedule.ts'
import { labelProblem, webhookUrlProblem } from '../../src/lib/label.ts'
import { durationSeconds } from '../../src/lib/units.ts'
import { mintWebhookSecret } from '../../src/webhooks/rules.ts'

describe('a duration', () => {
  test.each([
    ['90s', 90],
    ['15m', 900],
    ['12h', 43_200],
    ['7d', 604_800],
    ['0s', 0],
    ['007s', 7],
  ])('%s is %i seconds', (text, seconds) => expect(durationSeconds(text)).toBe(seconds))

  test.each(['', 's', '5', '5 m', ' 5m', '5m ', '5M', '-5m', '1.5h', '5w', '1h30m', '9999999999s', '5m\n', '٥m'])(
    '"%s" is not a duration',
    (text) => expect(durationSeconds(text)).toBeNull(),
  )
})

test('Retry-After lengthens a wait, up to the longest of the schedule', () => {
  const schedule = readRetrySchedule('0s,5s,5m')!
  const delay = (text: string) => retryDelayMs(schedule, 1, { retryAfterMs: readRetryAfter(text, 0), random: 0.5 })
  expect(['2', '60', '99999999999999999999', `1${'0'.repeat(400)}`, 'soon', '-1'].map(delay)).toEqual([
    5_000, 60_000, 300_000, 300_000, 5_000, 5_000,
  ])
})

// Fails if the format without a zone is read as local time.
test.each([
  ['60', 60],
  ['60 ', 60],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 37],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 37],
  ['Sun Nov  6 08:49:37 1994', 37],
  [' Sun, 06 Nov 1994 08:00:00 GMT', 0],
  ['Sun, 06 Nov 1994 08:49:37', null],
  ['Foo, 06 Nov 1994 08:49:37 GMT', null],
  ['Sun, 06 Nov 1994 08:49:37 +0900', null],
  ['Nov 6 1994', null],
  ['-1', null],
  ['', null],
])('Retry-After: %j is %j seconds', (text, seconds) => {
  vi.stubEnv('TZ', 'America/New_York')
  onTestFinished(() => void vi.unstubAllEnvs())
  const now = Date.parse('1994-11-06T08:49:00Z')
  expect(readRetryAfter(text, now)).toBe(seconds === null ? null : seconds * 1_000)
})

describe('a label', () => {
  test.each(['a', ' padded ', 'Müller & Söhne', '名前', '👩‍👩‍👧', 'مرحبا', '<script>', "'; drop table"])(
    'may be "%s"',
    (text) => expect(labelProblem(text)).toBeNull(),
  )
  test.each([
    ...['', ' ', '\u00a0\u3000', '\u2800', '\u3164 '],
    ...['a\tb', 'a\nb', '\u0000', '\u007f', '\u0085', '\ud800', 'x\udc00', '\u001b[31m'],
  ])('may not be %j', (text) => expect(labelProblem(text)).not.toBeNull())
  test('may contain Braille with its blanks', () => expect(labelProblem('⠓⠊⠀⠞⠓⠑⠗⠑')).toBeNull())
})

describe('a webhook URL', () => {
  test.each([
    'https://example.com',
    'https://example.com/',
    'HTTPS://EXAMPLE.COM/x',
    'https://example.com:8443/hooks?a=b&c=@d',
    'https://example.com/@user',
    'https://münchen.example/',
    'https://[2001:db8::1]/',
    'https://192.0.2.1/',
    'https://example.com/%23',
  ])('may be %s', (text) => expect(webhookUrlProblem(text)).toBeNull())

  test.each([
    ['', /absolute/],
    ['example.com', /absolute/],
    ['//example.com/', /absolute/],
    ['http://example.com/', /https/],
    ['ftp://example.com/', /https/],
    ['wss://example.com/', /https/],
    ['data:text/plain,x', /https/],
    ['https:example.com', /https:\/\//],
    ['https:/example.com', /https:\/\//],
    ['https:///example.com', /https:\/\//],
    ['https:\\\\example.com', /https:\/\//],
    ['https://example.com\\x', /backslash/],
    ['https://user@example.com/', /user name/],
    ['https://:pw@example.com/', /user name/],
    ['https://@example.com/', /user name/],
    ['https://%75:p@example.com', /user name/],
    ['https://example.com/#', /fragment/],
    ['https://example.com/ x', /spaces/],
    ['https://exam\tple.com/', /spaces/],
    ['\u0000https://example.com/', /spaces/],
    ['https://example.com/\u200b', /invisible/],
    ['https://example.com/\u034f', /invisible/],
    ['https://example.com/\ufe0f', /invisible/],
    ['https://example.com/\u3164', /invisible/],
    ['https://example.com/\u180b', /invisible/],
    ['https://example.com/\u115f', /invisible/],
    ['https://example.com/\u2800', /invisible/],
    ['https://exa%20mple.com/', /absolute/],
    ['https://[::1/', /absolute/],
    ['https://example.com:port/', /absolute/],
  ])('may not be %j', (text, problem) => expect(webhookUrlProblem(text)).toMatch(problem))
})

test('a webhook secret is whsec_ and 32 random bytes', () => {
  const secrets = Array.from({ length: 100 }, mintWebhookSecret)
  expect(new Set(secrets).size).toBe(100)
  for (const secret of secrets) {
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(32)
  }
})

test('the event types are the six of the published interface, in its order', () => {
  expect(eventTypes).toEqual([
    'database.created',
    'database.failed',
    'backup.completed',
    'backup.failed',
    'restore.completed',
    'invoice.paid',
  ])
})

describe('roles', () => {
  test('owner and admin have all keys and webhooks; a member reads webhooks and has only their own keys', () => {
    for (const permission of [
      'keys:create',
      'keys:read',
      'keys:revoke',
      'webhooks:create',
      'webhooks:read',
      'webhooks:delete',
      'deliveries:read',
    ] as const) {
      expect(reachOf('owner', permission)).toBe('all')
      expect(reachOf('admin', permission)).toBe('all')
    }
    const memberReach = [
      'keys:create',
      'keys:read',
      'keys:revoke',
      'webhooks:create',
      'webhooks:read',
      'webhooks:delete',
      'deliveries:read',
    ] as const
    expect(memberReach.map((permission) => reachOf('member', permission))).toEqual([
      'own',
      'own',
      'own',
      'none',
      'all',
      'none',
      'all',
    ])
  })

  test('only the three roles are roles, not names of object properties', () => {
    expect(roles).toEqual(['owner', 'admin', 'member'])
    for (const name of ['Owner', 'superuser', '', 'toString', '__proto__', 'constructor'])
      expect(isRole(name)).toBe(false)
    for (const reaches of Object.values(permissionTable)) {
      for (const reach of Object.values(reaches)) expect(['all', 'own', 'none']).toContain(reach)
    }
  })
})
