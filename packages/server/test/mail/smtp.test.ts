import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SMTPServerOptions } from 'smtp-server'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readMailFrom, readMailServer } from '../../src/lib/mail-server.ts'
import { type ConfigProblems, readConfig } from '../../src/settings/config.ts'
import { caFile, certificate } from '../delivery/support/receiver.ts'
import { freePort } from '../kit/free-port.ts'
import { keyhookHere, scratchDirectory } from '../kit/processes.ts'
import { startMailServer } from './support/mail-server.ts'
import { mailSettings } from './support/mailing-api.ts'

const testMail = (port: number, settings: Record<string, string> = {}, args: string[] = []) =>
  keyhookHere(['mail', 'test', '--to', 'ops@example.com', ...args], mailSettings(port, settings))

async function serverFor(options: Parameters<typeof startMailServer>[0]) {
  const server = await startMailServer(options)
  onTestFinished(() => server.stop())
  return server
}

const tls = { ...certificate('receiver'), disabledCommands: [] }
const login: SMTPServerOptions = {
  authOptional: false,
  disabledCommands: ['STARTTLS'],
  allowInsecureAuth: true,
  onAuth({ username, password }, _session, done) {
    if (username === 'ada@example.com' && password === 'p@ss:w/rd') done(null, { user: username })
    else done(Object.assign(new Error('Invalid login'), { responseCode: 535 }))
  },
}

describe('keyhook mail test', () => {
  test('sends a mail at once, and says what the server answered', async () => {
    const server = await serverFor({})
    const { code, stdout } = await testMail(server.port)
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^127\.0\.0\.1:\d+ accepted the mail to ops@example\.com: 250 .*\n$/),
    ])
    expect(server.mails).toMatchObject([{ from: 'keyhook@example.com', to: ['ops@example.com'] }])
    const json = JSON.parse((await testMail(server.port, {}, ['--json'])).stdout)
    expect(json).toMatchObject({ sent: true, to: 'ops@example.com' })
  })

  test('uses STARTTLS and TLS from the start, with the authority of a file', async () => {
    const withCa = { KEYHOOK_SMTP_TLS: 'required', KEYHOOK_SMTP_CA_FILE: caFile }
    for (const secure of [false, true]) {
      const seen: boolean[] = []
      const server = await serverFor({
        ...tls,
        secure,
        onMailFrom(_address, session, done) {
          seen.push(session.secure)
          done()
        },
      })
      const url = `${secure ? 'smtps' : 'smtp'}://localhost:${server.port}`
      const { code, stderr } = await testMail(server.port, { ...withCa, KEYHOOK_SMTP_URL: url })
      expect([code, stderr, seen]).toEqual([0, '', [true]])
      const { stderr: untrusted } = await testMail(server.port, { KEYHOOK_SMTP_TLS: 'required', KEYHOOK_SMTP_URL: url })
      expect(untrusted).toContain('KEYHOOK_SMTP_CA_FILE')
      expect(seen).toHaveLength(1)
    }
  })

  test('never sends a password or a mail without TLS where it is required', async () => {
    const server = await serverFor(login)
    const url = `smtp://ada%40example.com:p%40ss%3Aw%2Frd@127.0.0.1:${server.port}`
    const refused = await testMail(server.port, { KEYHOOK_SMTP_TLS: 'required', KEYHOOK_SMTP_URL: url })
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('offers no TLS')])
    expect((await testMail(server.port, { KEYHOOK_SMTP_URL: url })).code).toBe(0)
    expect(server.mails).toHaveLength(1)
  })

  test('explains a wrong password, a server that is away, and the wrong kind of TLS', async () => {
    const server = await serverFor(login)
    const wrong = await testMail(server.port, {
      KEYHOOK_SMTP_URL: `smtp://ada%40example.com:no@127.0.0.1:${server.port}`,
    })
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('refused the login')])
    expect(wrong.stderr).toContain('535')
    expect((await testMail(await freePort())).stderr).toContain('Nothing listens at 127.0.0.1:')
    const plain = await testMail(server.port, { KEYHOOK_SMTP_URL: `smtps://127.0.0.1:${server.port}` })
    expect(plain.stderr).toContain('did not answer with TLS')
  })

  test('says what is missing without settings, and refuses what is no address', async () => {
    expect((await keyhookHere(['mail', 'test', '--to', 'a@example.com'], {})).stderr).toContain('KEYHOOK_SMTP_URL')
    expect((await testMail(1, {}, ['--to', 'a@example.com, b@example.com'])).stderr).toContain('not an e-mail address')
  })
})

describe('the settings of mail', () => {
  test('name what is needed with a mail server, and show no password', () => {
    const problemsOf = (settings: Record<string, string>) => {
      try {
        readConfig(settings)
        return []
      } catch (error) {
        return (error as ConfigProblems).problems
      }
    }
    expect(problemsOf({ KEYHOOK_SMTP_URL: 'smtps://mail.example.com' })).toEqual([
      'KEYHOOK_MAIL_FROM: is required with KEYHOOK_SMTP_URL',
      'KEYHOOK_PUBLIC_URL: is required with KEYHOOK_SMTP_URL',
    ])
    const wrong = problemsOf(mailSettings(25, { KEYHOOK_SMTP_URL: 'http://ada:secret@mail.example.com' }))
    expect(wrong.join()).toMatch(/^KEYHOOK_SMTP_URL: the value is not an address such as smtp:/)
    expect(wrong.join()).not.toContain('secret')
  })

  test('may be in a file', async () => {
    const path = join(await scratchDirectory(), 'smtp')
    writeFileSync(path, 'smtps://ada:secret@mail.example.com\n')
    const { KEYHOOK_SMTP_URL: _, ...others } = mailSettings(25)
    expect(readConfig({ ...others, KEYHOOK_SMTP_URL_FILE: path }).smtpUrl).toEqual({
      host: 'mail.example.com',
      port: 465,
      isSecure: true,
      login: { user: 'ada', pass: 'secret' },
    })
  })

  test('are read as they are written, or not at all', () => {
    expect(readMailServer('smtp://[::1]')).toEqual({ host: '::1', port: 587, isSecure: false, login: null })
    for (const wrong of [
      'mail.example.com',
      'smtp://',
      'smtp://a@b',
      'smtp://h/path',
      'smtp://h?tls=off',
      'smtp://%:%@h',
    ])
      expect(readMailServer(wrong)).toBeNull()
    expect(readMailFrom('Ada Co <a@example.com>')).toEqual({ name: 'Ada Co', address: 'a@example.com' })
    for (const wrong of ['a', 'a@b, c@d', 'A <a@b> <c@d>', 'A\r\nBcc: x <a@b>', '<a@b'])
      expect(readMailFrom(wrong)).toBeNull()
  })
})
