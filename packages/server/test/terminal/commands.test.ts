import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { cleanEnvironment, program } from '../kit/processes.ts'
import { openTerminal, ownersTerminal } from './support/terminal.ts'
import '../kit/server-limits.ts'

type Key = { id: string; name: string; api_key: string }

test('keys are created, listed and revoked; a key with its descendants in one call', async () => {
  const { terminal, api, orgId, key } = await ownersTerminal()
  const ci = await terminal.json<Key>('keys', 'create', '--name', 'ci')
  expect(ci).toMatchObject({ name: 'ci', api_key: expect.stringMatching(/^kh_/) })
  expect(await terminal.text('keys', 'create', '--name', 'shown')).toMatch(/shown once.*\n\n {2}kh_\w{8}_\w{32}\n/)

  const child = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: ci.api_key })
  const grandchild = await child.json<Key>('keys', 'create', '--name', 'grandchild')
  const refused = await terminal.run('keys', 'revoke', ci.id)
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('Add --yes to confirm')])
  const { revoked } = await terminal.json<{ revoked: string[] }>('keys', 'revoke', ci.id, '--descendants', '--yes')
  expect(revoked.sort()).toEqual([ci.id, grandchild.id].sort())
  const path = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  for (const { api_key } of [ci, grandchild]) expect((await call(path, { token: api_key })).status).toBe(401)

  const active = await terminal.json<Key[]>('keys', 'list')
  expect(active.map(({ name }) => name)).toEqual(['shown', 'terminal'])
  expect(await terminal.json('keys', 'list', '--status', 'all')).toHaveLength(4)
  expect(await terminal.json('keys', 'list', '--limit', '1')).toHaveLength(1)
  const table = await terminal.run('keys', 'list', '--limit', '1')
  expect(table.stdout).toMatch(
    /^ID +NAME +PREFIX +STATUS +LAST USED \(UTC\) +EXPIRES +LIMITED\nkey_\w+ +shown +kh_\w{8} +active +- +never +no\n$/,
  )
  expect(table.stderr).toContain('There are more than 1')
  expect(await terminal.json('keys', 'revoke', key.id, '--yes')).toEqual({ revoked: [key.id] })
  expect(await terminal.run('keys', 'list')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('npx keyhook login'),
  })
})

test('an owner deletes the organization by its name, with a login token only', async () => {
  const { terminal, orgId, owner } = await ownersTerminal()
  const remove = ['organizations', 'delete', '--confirm', 'Acme']
  // The key of this terminal cannot.
  const refused = await terminal.run(...remove)
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('login token') })
  expect(refused.stderr).toContain('\nLog in yourself: npx keyhook login\n')
  const own = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: owner.token, KEYHOOK_ORG: orgId })
  expect(await own.text('organizations', 'list')).toMatch(new RegExp(`${orgId} +Acme`))
  expect(await own.run('organizations', 'delete', '--confirm', 'acme')).toMatchObject({ code: 2, stdout: '' })
  expect(await own.text(...remove)).toContain(`${orgId} is deleted.`)
  expect(await own.json('organizations', 'list')).toEqual([])
  expect(await terminal.run('keys', 'list')).toMatchObject({ code: 3 })
})

test('a service member is created with a key that acts as it, changed, listed and removed with its key', async () => {
  const { terminal, api, orgId, owner } = await ownersTerminal()
  // The key of this terminal cannot.
  const create = ['members', 'create-service', '--name', 'deploy', '--role', 'member']
  expect(await terminal.run(...create)).toMatchObject({ code: 3, stderr: expect.stringContaining('login token') })
  const own = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: owner.token, KEYHOOK_ORG: orgId })
  const { user_id: bot } = await own.json<{ user_id: string }>(...create)
  const key = await own.json<Key>('keys', 'create', '--name', 'ci', '--for', bot, '--preset', 'read_only')
  expect(await own.json('keys', 'show', key.id)).toMatchObject({ created_by: bot, expired: false })
  expect(await own.text('members', 'update', bot, '--role', 'admin')).toBe('deploy (service member) is now admin.\n')
  expect(await own.text('members', 'list')).toMatch(new RegExp(`${bot} +admin +deploy \\(service member\\)`))
  const path = `${api.url}/api/v1/organizations/${orgId}/webhooks`
  expect((await call(path, { token: key.api_key })).status).toBe(200)
  expect(await own.run('members', 'remove', bot)).toMatchObject({ code: 2 })
  expect(await own.json('members', 'remove', bot, '--yes')).toEqual({ removed: bot })
  expect((await call(path, { token: key.api_key })).status).toBe(401)
})

test('a restricted key is created, shown, narrowed, rotated, and listed when it is unused', async () => {
  const { terminal, api, owner, orgId } = await ownersTerminal()
  const limits = ['--networks', '127.0.0.0/8,::1', '--expires', '90d']
  const made = await terminal.json<Key>('keys', 'create', '--name', 'report', '--preset', 'read_only', ...limits)
  const shown = await terminal.text('keys', 'show', made.id)
  expect(shown).toMatch(/Permissions +organizations:read, .*\n.*\n?Databases +all\n/)
  expect(shown).toContain('127.0.0.0/8, ::1/128')
  const own = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: made.api_key })
  expect(await own.run('keys', 'create', '--name', 'more')).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('keys:create'),
  })
  const narrowed = await terminal.json('keys', 'update', made.id, '--permissions', 'keys:read', '--name', 'narrow')
  expect(narrowed).toMatchObject({ name: 'narrow', permissions: ['keys:read'] })
  expect(await terminal.run('keys', 'update', made.id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--permissions'),
  })
  const spare = await terminal.json<Key>('keys', 'create', '--name', 'spare')
  expect(await terminal.text('keys', 'rotate', spare.id, '--overlap', '24h')).toContain(
    'which ends in 24h at the latest',
  )
  const successor = await terminal.json<Key>('keys', 'rotate', made.id, '--overlap', '0s')
  expect(await terminal.json('keys', 'show', successor.id)).toMatchObject({
    name: 'narrow',
    permissions: ['keys:read'],
  })
  expect((await own.run('keys', 'list')).code).toBe(3)
  const unused = await terminal.run('keys', 'list', '--unused', '90d')
  expect([unused.stdout, unused.stderr]).toEqual(['', 'The organization has no such API keys.\n'])
  await api.db`update keyhook.api_keys set created_at = now() - interval '100 days' where id = ${successor.id}`
  expect(await terminal.json('keys', 'list', '--unused', '90d')).toMatchObject([{ id: successor.id }])
  expect(await terminal.text('keys', 'list')).toMatch(
    new RegExp(`^${successor.id} .* unused for 100d +- +\\d{4}-\\d\\d-\\d\\d +yes$`, 'm'),
  )
  const widen = ['keys', 'update', successor.id, '--permissions', 'none', '--expires', 'none', '--org', orgId]
  expect(await terminal.run(...widen)).toMatchObject({ code: 3, stderr: expect.stringContaining('login token') })
  const person = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: owner.token })
  expect(await person.json(...widen)).toMatchObject({ permissions: null, expires_at: null })
})

test('webhooks are created, tested, recovered and deleted, and each change is in the audit log', async () => {
  const { terminal } = await ownersTerminal()
  type Webhook = { id: string; secret: string; event_types: string[] }
  const create = ['webhooks', 'create', '--url', 'https://example.com/hooks', '--events']
  const made = await terminal.json<Webhook>(...create, 'invoice.paid, database.created')
  expect(made).toMatchObject({
    event_types: ['invoice.paid', 'database.created'],
    secret: expect.stringMatching(/^whsec_/),
  })
  expect(await terminal.text(...create, 'invoice.paid')).toContain('npx keyhook webhooks test wh_')

  expect(await terminal.json('webhooks', 'test', made.id)).toEqual({ event_id: expect.stringMatching(/^evt_/) })
  expect(await terminal.json('webhooks', 'deliveries', made.id)).toEqual([])
  expect(await terminal.json('webhooks', 'recover', made.id, '--since', '2h', '--dry-run')).toEqual({
    id: null,
    matching: 0,
  })
  const recovered = await terminal.json('webhooks', 'recover', made.id, '--since', '2h')
  expect(recovered).toEqual({ id: expect.stringMatching(/^rcv_/), matching: 0 })
  const unknown = await terminal.run('webhooks', 'redeliver', made.id, newId('dlv'))
  expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining('Check the id, and --org')])

  const wrong = await terminal.run('webhooks', 'create', '--url', 'http://example.com', '--events', 'frob')
  expect([wrong.code, wrong.stdout]).toEqual([2, ''])
  expect(wrong.stderr).toMatch(
    /^The server refused the request:\n {2}url must use the https:\/\/ scheme\.\n {2}event_types\/0 must be one of /,
  )
  expect(await terminal.json('webhooks', 'delete', made.id, '--yes')).toEqual({ deleted: made.id })
  expect(await terminal.json('audit', '--limit', '1')).toMatchObject([
    { action: 'webhook.deleted', target_id: made.id },
  ])
})

test('a webhook is shown with its health, paused, resumed, and gets a new secret', async () => {
  const { terminal } = await ownersTerminal()
  const create = ['webhooks', 'create', '--url', 'https://example.com/hooks', '--events', 'invoice.paid']
  const { id, secret } = await terminal.json<{ id: string; secret: string }>(...create)
  expect(await terminal.json('webhooks', 'list')).toMatchObject([{ id, status: 'active' }])
  expect(await terminal.text('webhooks', 'list')).toMatch(new RegExp(`^ID .+\\n${id} .+active`))
  expect(await terminal.text('webhooks', 'show', id)).toMatch(
    /Status +active\n[\s\S]*Secret created +\d{4}-[\s\S]*Last 24 hours +0 succeeded, 0 failed\nWaiting +0 deliveries/,
  )

  const until = (await terminal.json<{ paused_until: string }>('webhooks', 'pause', id, '--for', '2h')).paused_until
  expect(Date.parse(until) - Date.now()).toBeGreaterThan(7_000_000)
  expect(await terminal.text('webhooks', 'show', id)).toMatch(/Status +paused until \d{4}-/)
  expect(await terminal.json('webhooks', 'resume', id)).toMatchObject({ id, status: 'active', paused_until: null })

  const rotated = await terminal.run('webhooks', 'rotate-secret', id, '--overlap', '1h')
  expect(rotated.stdout).toMatch(/ {2}whsec_\S{44}\n/)
  expect(rotated.stdout).not.toContain(secret)
  expect(rotated.stdout).toMatch(
    /Step 1 of 3[\s\S]+Step 2 of 3[\s\S]+webhooks code js[\s\S]+test wh_\w+ --wait[\s\S]+Step 3 of 3/,
  )
  expect(rotated.stdout).toContain(`npx keyhook webhooks rotate-secret ${id} --switch`)
  expect(await terminal.text('webhooks', 'show', id)).toMatch(/Secret rotation +not switched: .+ until \d{4}-/)
  expect(await terminal.json('webhooks', 'rotate-secret', id, '--switch', '--overlap', '2h')).toMatchObject({
    secret_rotation: { switched: true },
  })
  expect(await terminal.text('webhooks', 'show', id)).toMatch(/Secret rotation +switched .+ ends at \d{4}-/)
  expect(await terminal.text('webhooks', 'rotate-secret', id, '--switch', '--overlap', '0')).toContain('has ended')
  const wrong = await terminal.run('webhooks', 'rotate-secret', id, '--overlap', 'a day')
  expect([wrong.code, wrong.stderr]).toEqual([2, '--overlap: "a day" is not a duration such as 5s, 30m, 2h or 3d.\n'])
})

test('the code that verifies deliveries is printed for each language', async () => {
  const { text, run } = await openTerminal({})
  expect(await text('webhooks', 'code')).toContain('isFromKeyhook(rawBody, signatureHeader, ...secrets)')
  expect(await text('webhooks', 'code', 'rust')).toContain('secrets: &[&str]')
  const wrong = await run('webhooks', 'code', 'cobol')
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('js, python, go, java, ruby')])
})

test('a webhook is updated: URL, event types, description and rate limit', async () => {
  const { terminal } = await ownersTerminal()
  const create = ['webhooks', 'create', '--url', 'https://example.com/hooks', '--events', 'invoice.paid']
  const { id } = await terminal.json<{ id: string }>(...create)
  const update = (...options: string[]) => terminal.json('webhooks', 'update', id, ...options)
  const url = 'https://example.com/new'
  expect(await update('--url', url, '--events', 'backup.failed,backup.completed')).toMatchObject({
    url,
    event_types: ['backup.failed', 'backup.completed'],
  })
  const described = { description: 'Billing', rate_limit: 0.5 }
  expect(await update('--description', 'Billing', '--rate-limit', '0.5')).toMatchObject({ url, ...described })
  expect(await update('--description', '', '--rate-limit', 'none')).toMatchObject({
    description: null,
    rate_limit: null,
  })
  expect(await terminal.run('webhooks', 'update', id)).toMatchObject({ code: 2 })
  const wrong = await terminal.run('webhooks', 'update', id, '--rate-limit', 'fast')
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('"fast" is neither a number of deliveries')])
})

test('the time after which webhooks are suspended is shown, set and given back to the operator', async () => {
  const { terminal } = await ownersTerminal()
  const suspension = ['webhooks', 'suspension']
  expect(await terminal.text(...suspension)).toContain('after 24 hours of failing, as the operator has set it.')
  expect(await terminal.text(...suspension, '--after-hours', '48')).toContain(
    '48 hours of failing, as the organization',
  )
  expect(await terminal.json(...suspension)).toEqual({ after_hours: 48, operator_after_hours: 24 })
  expect(await terminal.text(...suspension, '--after-hours', '0')).toContain('never suspended')
  expect(await terminal.json(...suspension, '--after-hours', 'default')).toMatchObject({ after_hours: null })
  for (const text of ['721', '2h', '-1']) {
    const wrong = await terminal.run(...suspension, '--after-hours', text)
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining(`"${text}" is neither a whole number`)])
  }
})

test('how long new keys last at most is shown, set and given back to the operator', async () => {
  const { terminal: withKey, orgId, owner } = await ownersTerminal()
  const lifetime = ['keys', 'lifetime']
  expect(await withKey.run(...lifetime, '--max', '90d')).toMatchObject({ code: 3, stdout: '' })
  const terminal = await openTerminal({ ...withKey.env, KEYHOOK_TOKEN: owner.token, KEYHOOK_ORG: orgId })
  expect(await terminal.text(...lifetime)).toContain('New keys may last for ever.')
  expect(await terminal.text(...lifetime, '--max', '90d')).toContain('at most 90 days, as the organization has set it.')
  expect(await terminal.json(...lifetime)).toEqual({ days_max: 90, operator_days_max: null })
  const { id } = await terminal.json<{ id: string }>('keys', 'create', '--name', 'ci', '--expires', '90d')
  expect(await terminal.text('keys', 'show', id)).not.toMatch(/Expires +never/)
  expect(await terminal.json(...lifetime, '--max', 'none')).toMatchObject({ days_max: null })
  for (const text of ['36h', '5']) {
    const wrong = await terminal.run(...lifetime, '--max', text)
    const reason = `--max: "${text}" is not a number of whole days such as 90d.`
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining(reason)])
  }
})

test('a key that cannot look up its organization is told to name it', async () => {
  const { terminal, orgId } = await ownersTerminal()
  const made = await terminal.json<Key>('keys', 'create', '--name', 'x', '--permissions', 'webhooks:read')
  const own = await openTerminal({ ...terminal.env, KEYHOOK_TOKEN: made.api_key })
  const refused = await own.run('webhooks', 'list')
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/organizations:read.*\n.*--org or KEYHOOK_ORG/),
  })
  expect(await own.json('webhooks', 'list', '--org', orgId)).toEqual([])
})

test('a wrong value is named with what is expected', async () => {
  const { terminal } = await ownersTerminal()
  const refused = async (...args: string[]) => {
    const { code, stderr } = await terminal.run(...args)
    expect(code).toBe(2)
    return stderr
  }
  const create = ['webhooks', 'create', '--url', 'https://example.com/hooks']
  expect(await refused(...create)).toMatch(/^--events: choose one or more [\s\S]+\n {2}invoice\.paid +\S/)
  const { id } = await terminal.json<{ id: string }>(...create, '--events', 'invoice.paid')
  expect(await refused('webhooks', 'update', id, '--rate-limit', '5000')).toContain(
    'rate_limit must be from 0.1 to 1,000.',
  )
  expect(await refused('webhooks', 'show', 'orders')).toMatch(/^"orders" is not the id of a webhook, such as wh_/)
  expect(await refused('databases', 'show', 'orders')).toContain("There is no database 'orders' in this organization.")
  const made = await terminal.json<{ id: string }>('databases', 'create', '--name', 'orders')
  expect(await terminal.json('databases', 'show', 'orders')).toMatchObject({ id: made.id })
  const other = await terminal.json<{ id: string }>('databases', 'create', '--name', 'orders')
  expect(await refused('databases', 'show', 'orders')).toContain(`  ${other.id}\n`)
})

test('an unknown command exits with 2 and names the nearest', async () => {
  const { terminal } = await ownersTerminal()
  const ended = await terminal.run('webhooks', 'lst')
  expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining('Did you mean list?')])
})

test('a server that cannot be reached is an error with advice and exit code 1', async () => {
  const { run } = await openTerminal({
    KEYHOOK_URL: 'http://127.0.0.1:1',
    KEYHOOK_TOKEN: 'x',
    KEYHOOK_ORG: newId('org'),
  })
  const ended = await run('keys', 'revoke', newId('key'), '--yes')
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  expect(ended.stderr).toMatch(/^The server cannot be reached: .+\n.+\n$/)
})

test('tables fit a terminal of 80 columns; colour comes only on a terminal, and NO_COLOR turns it off', async () => {
  const { terminal } = await ownersTerminal()
  await terminal.json('keys', 'create', '--name', `a long name ${'x'.repeat(100)}`)
  const plain = await terminal.text('keys', 'list')
  expect(plain).toContain('x'.repeat(100))
  expect(plain).not.toContain('\x1b[')

  const inTerminal = async (more: Record<string, string>) => {
    const command = `stty cols 80; ${process.execPath} ${program} keys list`
    const env = cleanEnvironment({ TERM: 'xterm-256color', ...terminal.env, ...more })
    const child = spawn('script', ['-qec', command, '/dev/null'], { env })
    const [stdout] = await Promise.all([text(child.stdout), once(child, 'close')])
    return stdout
  }
  const coloured = await inTerminal({})
  expect(coloured).toContain('\x1b[1mID')
  const colourless = await inTerminal({ NO_COLOR: '1' })
  expect(colourless).not.toContain('\x1b[')
  for (const output of [coloured, colourless]) {
    const lines = stripVTControlCharacters(output).split('\r\n')
    expect(lines).toHaveLength(4)
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80)
    expect(output).toContain('a long n')
    expect(output).not.toContain('LIMITED')
    expect(output).toContain('…')
  }
})
