import { expect, it } from 'vitest'
import { issuerUrlProblem } from '../../src/lib/network.ts'

it.each([
  'https://issuer.example',
  'https://issuer.example/',
  'https://issuer.example:8443/realms/one',
  'http://localhost:3000',
  'http://127.0.0.1:3000',
  'http://127.8.9.1/path',
  'http://[::1]:3000',
])('%s may be an issuer', (url) => {
  expect(issuerUrlProblem(url)).toBeNull()
})

it.each([
  ['', 'is not an https URL'],
  ['issuer.example', 'is not an https URL'],
  ['urn:keyhook:local', 'is not an https URL'],
  ['ftp://issuer.example', 'is not an https URL'],
  ['http://issuer.example', 'must use https'],
  ['http://127.issuer.example', 'must use https'],
  ['http://127.0.0.1.issuer.example', 'must use https'],
  ['http://localhost.issuer.example', 'must use https'],
  ['http://10.0.0.1', 'must use https'],
  ['https://issuer.example?', 'query'],
  ['https://issuer.example/?tenant=1', 'query'],
  ['https://issuer.example/#top', 'fragment'],
  ['https://user@issuer.example', 'user name'],
  ['https://:secret@issuer.example', 'password'],
  [' https://issuer.example', 'white space'],
  ['https://issuer.example\n', 'white space'],
])('%j may not be an issuer: it %s', (url, problem) => {
  expect(issuerUrlProblem(url)).toContain(problem)
})

it('a problem never repeats the password', () => {
  expect(issuerUrlProblem('https://user:hunter2@issuer.example')).not.toContain('hunter2')
})
