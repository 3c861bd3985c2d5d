import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PeerCertificate } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { readConnectionUrl, tlsOptions } from '../../src/db/connection-url.ts'
import { caFile, certificateFiles } from '../delivery/support/receiver.ts'

const read = (url: string, environment: Record<string, string> = {}) => readConnectionUrl(url, environment)

test.each<[url: string, parts: Record<string, unknown>]>([
  ['postgres://u:p@h/d', { host: 'h', port: 5432, user: 'u', password: 'p', database: 'd' }],
  ['postgresql://u:p@h:6432/d', { host: 'h', port: 6432 }],
  ['postgres://u%40x:%2F%3A%20%25@h/a%20b', { user: 'u@x', password: '/: %', database: 'a b' }],
  ['postgres://u:p:q@r@h/d', { host: 'h', user: 'u', password: 'p:q@r' }],
  ['postgres://u@h', { host: 'h', user: 'u', password: '', database: 'u' }],
  ['postgres://u:p w%2Fx@h/d', { password: 'p w/x' }],
  ['postgres://u:a,b@h/d', { host: 'h', password: 'a,b' }],
  ['postgres://u:p+q@H.example/d', { host: 'H.example', password: 'p+q' }],
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
])('%s is read as PostgreSQL reads it', (url, parts) => {
  expect(read(url)).toMatchObject({ target: parts })
})

test('the URL overrides the environment, and the environment our defaults', () => {
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

test('certificate files from the environment turn no check on, as in psql', () => {
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
  ['postgres://u:hunter2@h/d?sslmode=disable&sslmode=require', 'has one parameter twice'],
  // Passwords that are not escaped: no part of them is repeated.
  ['postgres://u:hun/hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:12/hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:12?hunter2@h/d', 'has a parameter without a name or without a value'],
  ['postgres://u:hun#hunter2@h/d', 'is not a URL such as'],
  ['postgres://u:hunter2%@h/d', 'is not a URL such as'],
  ['postgres://u:hunter2%00@h/d', 'is not a URL such as'],
  ['postgres://u@h/d?password=hun&hunter2', 'has a parameter without a name or without a value'],
])('%s is rejected, and no password repeated', (url, problem) => {
  const result = read(url)
  expect(result).toEqual({ problems: [expect.stringContaining(problem)] })
  expect(JSON.stringify(result)).not.toMatch(/hunter2|hun\b/)
})

test('every problem of a URL is reported at once', () => {
  const url = 'postgres://a/d?host=a,b&port=x&sslmode=on&prepare=no&sslcrl=/x'
  expect(read(url)).toEqual({
    problems: [/several hosts/, /sslmode/, /prepare/, /port/, /sslcrl/].map((one) => expect.stringMatching(one)),
  })
})

test('a key of another certificate is rejected', async () => {
  const [cert, key] = [certificateFiles('receiver').cert, certificateFiles('stranger').key]
  expect(read(`postgres://u@h/d?sslmode=require&sslcert=${cert}&sslkey=${key}`)).toEqual({
    problems: [expect.stringContaining('names an sslkey that cannot be used')],
  })
})

test('a file without a certificate is rejected', async () => {
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
])('the TLS mode of %s is %s', (parameters, mode) => {
  const result = read(`postgres://u@h/d${parameters}`)
  expect('target' in result && result.target.tls?.mode).toBe(mode)
})

test('sslrootcert=system trusts the authorities of the machine, and checks the host name', () => {
  const result = read('postgres://u@h/d?sslrootcert=system')
  const problems = ['has sslrootcert=system, and this machine has no certificate authorities']
  // A small container may have none.
  if ('problems' in result) expect(result.problems).toEqual(problems)
  else
    expect(result.target.tls).toMatchObject({ mode: 'verify-full', ca: expect.stringContaining('BEGIN CERTIFICATE') })
})

test('the certificate is compared with the host of the URL', () => {
  const shown = { subject: {}, subjectaltname: 'DNS:localhost' } as unknown as PeerCertificate
  const check = (host: string, mode: 'verify-ca' | 'verify-full') => {
    const options = tlsOptions({ host, tls: { mode } })
    return options === false ? null : options.checkServerIdentity!('localhost', shown)
  }
  expect(check('localhost', 'verify-full')).toBeUndefined()
  expect(check('127.0.0.1', 'verify-full')).toBeInstanceOf(Error)
  expect(check('127.0.0.1', 'verify-ca')).toBeUndefined()
})
