import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PeerCertificate } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { tlsOptions } from '../../src/db/connection/connection-tls.ts'
import { readConnectionUrl } from '../../src/db/connection/connection-url.ts'
import { caFile, certificateFiles } from '../webhooks/support/receiver.ts'

const read = (url: string, environment: Record<string, string> = {}) => readConnectionUrl(url, environment)

test.each<[url: string, parts: Record<string, unknown>]>([
  ['postgres://u:p@h/d', { host: 'h', port: 5432, user: 'u', password: 'p', database: 'd' }],
  ['postgresql://u:p@h:6432/d', { host: 'h', port: 6432 }],
  ['postgres://u%40x:%2F%3A%20%25@h/a%20b', { user: 'u@x', password: '/: %', database: 'a b' }],
  ['postgres://u:p:q@r@h/d', { host: 'h', user: 'u', password: 'p:q@r' }],
  ['postgres://u@h', { host: 'h', user: 'u', password: '', database: 'u' }],
  ['postgres://u:p@[::1]:6432/d', { host: '::1', port: 6432 }],
  ['postgresql:///kh?host=/dir&port=5433&user=u', { host: '/dir', port: 5433, database: 'kh' }],
  ['postgresql://u:p@/kh?host=/dir', { host: '/dir', user: 'u', database: 'kh' }],
  ['postgresql://u@%2Fvar%2Frun%2Fpg:5433/kh', { host: '/var/run/pg', port: 5433 }],
  ['postgres://h/d?user=u&password=p&dbname=e&host=i', { host: 'i', user: 'u', password: 'p', database: 'e' }],
  ['postgres://u@h/d?prepare=false', { prepare: false }],
  ['postgres://u@h/d?connect_timeout=3', { connectSeconds: 3, prepare: true }],
  ['postgres://u@h/d?DateStyle=ISO&options=-c%20a%3Db', { settings: { DateStyle: 'ISO', options: '-c a=b' } }],
  ['postgres://u@h/d?constructor=x', { settings: { constructor: 'x' } }],
  ['postgres://u@h/d?channel_binding=prefer&gssencmode=disable', { settings: {} }],
])('%s is read as PostgreSQL would', (url, parts) => {
  expect(read(url)).toMatchObject({ target: parts })
})

test('the URL goes before the environment, and the environment before our own defaults', () => {
  const environment = {
    PGHOST: '/sockets',
    PGPORT: '7',
    PGUSER: 'e',
    PGPASSWORD: 's',
    PGDATABASE: 'f',
    PGOPTIONS: '-c a=b',
  }
  const theirs = { host: '/sockets', port: 7, user: 'e', password: 's', database: 'f', settings: { options: '-c a=b' } }
  expect(read('postgres://', environment)).toMatchObject({ target: theirs })
  expect(read('postgres://u:p@h:1/d?options=x', environment)).toMatchObject({
    target: { host: 'h', port: 1, user: 'u', password: 'p', database: 'd', settings: { options: 'x' } },
  })
  expect(read('postgres://u@/d')).toMatchObject({ target: { host: 'localhost', port: 5432 } })
})

test('files that the environment names ask for no check by themselves, as they do not of psql', () => {
  const environment = { PGSSLROOTCERT: '/nowhere/ca.pem', PGSSLCERT: '/nowhere/client.pem' }
  for (const url of [
    'postgres://u@h/d',
    'postgres://u@h/d?sslmode=prefer',
    'postgres://u@/d?host=/dir&sslmode=verify-full',
  ])
    expect(read(url, environment), url).toHaveProperty('target')
  expect(read('postgres://u@h/d?sslmode=require', environment)).toHaveProperty('problems')
  expect(read('postgres://u@h/d', { PGSSLROOTCERT: 'system' })).toMatchObject({
    target: { tls: { mode: 'verify-full' } },
  })
})

test.each<[url: string, problem: string]>([
  ['postgres://u:hunter2@a,b/d', 'names several hosts'],
  ['postgres://u:hunter2@a:1,b:2/d', 'names several hosts'],
  ['postgres://u:hunter2@/d?host=a,b', 'names several hosts'],
  ['postgres://u:hunter2@h:0/d', 'has a port that is not a number from 1 to 65535'],
  ['postgres://u:hunter2@h/d?port=5432x', 'has a port that is not a number from 1 to 65535'],
  ['postgres://u:hunter2@h/d?sslmode=no-verify', 'has an sslmode that is not one of disable, allow, prefer, require'],
  ['postgres://u:hunter2@h/d?sslrootcert=/x', 'names a certificate, which needs sslmode=require'],
  ['postgres://u:hunter2@h/d?sslmode=prefer&sslcert=/x', 'names a certificate, which needs sslmode=require'],
  ['postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert=/no/ca.pem', "open '/no/ca.pem'"],
  ['postgres://u:hunter2@h/d?sslmode=require&sslrootcert=system', 'needs sslmode=verify-full with sslrootcert=system'],
  ['postgres://u:hunter2@h/d?sslmode=verify-ca', 'needs sslrootcert with sslmode=verify-ca'],
  [`postgres://u:hunter2@h/d?sslmode=require&sslcert=${caFile}`, 'names one of sslcert and sslkey, and needs both'],
  ['postgres://u:hunter2@h/d?ssl=true', 'has the parameter ssl, which Keyhook does not take (it takes host, port,'],
  ['postgres://u:hunter2@h/d?sslcrl=/x', 'has the parameter sslcrl, which Keyhook does not take'],
  ['postgres://u:hunter2@h/d?hostaddr=::1', 'has the parameter hostaddr, which Keyhook does not take'],
  ['postgres://u:hunter2@h/d?channel_binding=require', 'has a channel_binding that Keyhook does not take'],
  ['postgres://u:hunter2@h/d?prepare=no', 'has a prepare that is neither true nor false'],
  ['postgres://u:hunter2@h/d?connect_timeout=0', 'has a connect_timeout that is not a number from 1 to 600'],
  ['postgres://u:hunter2@h/d?sslmode=disable&sslmode=require', 'says one parameter twice'],
  // Passwords that were not written as a URL needs them: no piece of them is repeated.
  ['postgres://u:hun/hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:12/hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:12?hunter2@h/d', 'has a parameter without a name or without a value'],
  ['postgres://u:hun#hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:hunter2%@h/d', 'is not a URL such as'],
  ['postgres://u:hunter2%00@h/d', 'is not a URL such as'],
  ['postgres://u@h/d?password=hun&hunter2', 'has a parameter without a name or without a value'],
])('%s is refused, and no password repeated', (url, problem) => {
  const said = read(url)
  expect(said).toEqual({ problems: [expect.stringContaining(problem)] })
  expect(JSON.stringify(said)).not.toMatch(/hunter2|hun\b/)
})

test('every problem of a URL is named at once', () => {
  const url = 'postgres://a/d?host=a,b&port=x&sslmode=on&prepare=no&sslcrl=/x'
  expect(read(url)).toEqual({
    problems: [/several hosts/, /sslmode/, /prepare/, /port/, /sslcrl/].map((one) => expect.stringMatching(one)),
  })
})

test('a key that is not that of its certificate is refused', async () => {
  const [cert, key] = [certificateFiles('receiver').cert, certificateFiles('stranger').key]
  expect(read(`postgres://u@h/d?sslmode=require&sslcert=${cert}&sslkey=${key}`)).toEqual({
    problems: [expect.stringContaining('names an sslkey that cannot be used')],
  })
})

test('a file without a certificate is refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-url-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'ca.pem'), 'not a certificate\n')
  expect(read(`postgres://u@h/d?sslmode=verify-full&sslrootcert=${join(folder, 'ca.pem')}`)).toEqual({
    problems: [expect.stringContaining('names an sslrootcert that cannot be used')],
  })
})

test.each([
  ['', undefined],
  ['?sslmode=disable', undefined],
  ['?sslmode=allow', 'prefer'],
  ['?sslmode=prefer', 'prefer'],
  ['?sslmode=require', 'require'],
  [`?sslmode=require&sslrootcert=${caFile}`, 'verify-ca'],
  [`?sslmode=verify-ca&sslrootcert=${caFile}`, 'verify-ca'],
  ['?sslmode=verify-full', 'verify-full'],
])('%s: what is asked of the server', (parameters, mode) => {
  const said = read(`postgres://u@h/d${parameters}`)
  expect('target' in said && said.target.tls?.mode).toBe(mode)
})

test('sslrootcert=system is what the machine trusts, and looks at the name', () => {
  const said = read('postgres://u@h/d?sslrootcert=system')
  const problems = ['says sslrootcert=system, and this machine has no certificate authorities']
  // A machine without any, as small containers are, says so.
  if ('problems' in said) expect(said.problems).toEqual(problems)
  else expect(said.target.tls).toMatchObject({ mode: 'verify-full', ca: expect.stringContaining('BEGIN CERTIFICATE') })
})

test('the name that is compared is the host, whatever a driver says', () => {
  const shown = { subject: {}, subjectaltname: 'DNS:localhost' } as unknown as PeerCertificate
  const check = (host: string, mode: 'verify-ca' | 'verify-full') => {
    const options = tlsOptions({ host, tls: { mode } })
    return options === false ? null : options.checkServerIdentity!('localhost', shown)
  }
  expect(check('localhost', 'verify-full')).toBeUndefined()
  expect(check('127.0.0.1', 'verify-full')).toBeInstanceOf(Error)
  expect(check('127.0.0.1', 'verify-ca')).toBeUndefined()
})
