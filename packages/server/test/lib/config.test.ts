import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ConfigProblems, readConfig, settings } from '../../src/settings/config.ts'

const key = () => randomBytes(32).toString('base64')

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(environment)
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems
    throw error
  }
  return []
}

test('with nothing set, every setting has its default', () => {
  const config = readConfig({})
  expect(config).toMatchObject({
    port: 8080,
    host: '127.0.0.1',
    database: null,
    dataDir: '.keyhook',
    serviceName: 'Service',
    keyTag: 'kh',
    masterKeys: null,
    oidcIssuer: null,
    oidcAudience: null,
    logLevel: 'info',
    logFormat: 'auto',
    requestBytesMax: 65_536,
    keysPerOrgMax: 10_000,
    webhooksPerOrgMax: 10_000,
  })
})

test('an empty value and spaces count as unset', () => {
  for (const empty of ['', ' ', '\t']) {
    const environment = Object.fromEntries(Object.values(settings).map(({ variable }) => [variable, empty]))
    expect(readConfig(environment)).toEqual(readConfig({}))
  }
})

test('the settings are frozen', () => {
  const config = readConfig({}) as { port: number }
  expect(Object.isFrozen(config)).toBe(true)
  expect(() => {
    config.port = 1
  }).toThrow()
})

test('all problems are reported together, each with the name of its variable', () => {
  const environment = {
    PORT: '80a',
    KEYHOOK_KEY_TAG: 'K_H',
    KEYHOOK_SERVICE_NAME: 'My Brand',
    KEYHOOK_MASTER_KEY: 'short',
    KEYHOOK_LOG_LEVEL: 'loud',
    KEYHOOK_OIDC_ISSUER: 'http://issuer.example',
    KEYHOOK_REQUEST_BYTES_MAX: '-1',
    KEYHOOK_TRUSTED_PROXIES: 'the proxy',
    DATABASE_URL: 'mysql://x',
  }
  const problems = problemsOf(environment)
  for (const variable of Object.keys(environment)) {
    expect(
      problems.filter((problem) => problem.startsWith(`${variable}: `)),
      variable,
    ).toHaveLength(1)
  }
  expect(problems).toContain('PORT: "80a" is not a port (0 to 65535)')
  expect(problems).toContain('KEYHOOK_OIDC_AUDIENCE: is required with KEYHOOK_OIDC_ISSUER')
  for (const problem of problems) expect(problem).not.toContain('\n')
})

test.each<[variable: string, values: string[]]>([
  ['PORT', ['80a', '-1', '65536', '1e3', '0x50', '8080.5', '٨٠']],
  ['KEYHOOK_KEY_TAG', ['KH', 'k_h', '9k', 'abcdefghijk']],
  ['KEYHOOK_SERVICE_NAME', ['My Brand', '1st', 'a:b', 'é', 'a\r\nb', 'x'.repeat(41)]],
  [
    'KEYHOOK_MASTER_KEY',
    ['short', randomBytes(31).toString('base64'), `${key()},`, `${key()} x`, randomBytes(32).toString('hex')],
  ],
  [
    'KEYHOOK_TRUSTED_PROXIES',
    ['proxy', '10.0.0.0/33', '::/129', '10.0.0.1,', '10.0.0.0/8/8', '10.0.0/8', '10.0.0.1/x', '0.0.0.0/0', '::/0'],
  ],
  ['KEYHOOK_DELIVERY_ALLOW_NETWORKS', ['10.0.0.0', '10/8', '192.168/16', '010.0.0.0/8', '10.0.0.0/08', '0x0a000000/8']],
  ['KEYHOOK_DATABASES_PUBLIC_HOST', ['db.example.com:5432', 'a b', '[::1]']],
  ['KEYHOOK_LOG_LEVEL', ['INFO', 'verbose']],
  ['KEYHOOK_LOG_FORMAT', ['JSON', 'text']],
  ['DATABASE_URL', ['localhost', 'mysql://localhost/x', 'postgres']],
  ['KEYHOOK_OIDC_ISSUER', ['http://issuer.example', 'issuer', 'ftp://x']],
  ['KEYHOOK_KEYS_PER_ORG_MAX', ['0', '10000001', 'many']],
  // None of these can be sent as a bearer token.
  ['KEYHOOK_METRICS_TOKEN', ['p@ss:word!', 'a b', 'aGVsbG8=x', 'é']],
])('%s rejects invalid values', (variable, values) => {
  for (const value of values) {
    const problems = problemsOf({ [variable]: value }).filter((problem) => problem.startsWith(`${variable}: `))
    expect(problems, value).toHaveLength(1)
  }
})

test('the retry schedule accepts what its message says, and no more', () => {
  const problems = (value: string) => problemsOf({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: value })
  const waits = (count: number) => ['0s', ...Array(count - 1).fill('30d')].join()
  expect(problems(waits(100))).toEqual([])
  for (const value of [waits(101), '0s,31d', '0s,721h', '5s,5m', '0s,', '0s;5s']) {
    expect(problems(value), value).toEqual([
      `KEYHOOK_DELIVERY_RETRY_SCHEDULE: "${value}" is not a schedule such as 0s,5s,5m,2h (up to 100 waits of up to 30d, the first 0s)`,
    ])
  }
})

test.each<[environment: Record<string, string>, complaint: string]>([
  [{ DATABASE_URL: 'postgres://localhost/keyhook' }, 'KEYHOOK_MASTER_KEY: is required with DATABASE_URL'],
  [{ KEYHOOK_OIDC_ISSUER: 'https://issuer.example' }, 'KEYHOOK_OIDC_AUDIENCE: is required with KEYHOOK_OIDC_ISSUER'],
  [
    { KEYHOOK_DATABASE_DRIVER: 'cloudnativepg' },
    'KEYHOOK_S3_BUCKET: is required with KEYHOOK_DATABASE_DRIVER=cloudnativepg',
  ],
  [{ KEYHOOK_OIDC_AUDIENCE: 'keyhook' }, 'KEYHOOK_OIDC_ISSUER: is required with KEYHOOK_OIDC_AUDIENCE'],
  [
    { KEYHOOK_OIDC_CLIENT_ID: 'console', KEYHOOK_PUBLIC_URL: 'https://keyhook.example' },
    'KEYHOOK_OIDC_ISSUER: is required with KEYHOOK_OIDC_CLIENT_ID',
  ],
  [{ KEYHOOK_DATABASES_HOST: '0.0.0.0' }, 'KEYHOOK_DATABASES_PUBLIC_HOST: is required'],
  [{ KEYHOOK_DATABASES_HOST: '::' }, 'KEYHOOK_DATABASES_PUBLIC_HOST: is required'],
])('%j needs another setting', (environment, complaint) => {
  expect(problemsOf(environment)).toEqual([expect.stringContaining(complaint)])
})

test('several master keys are read in order, current one first', () => {
  const [one, two] = [key(), key()]
  expect(readConfig({ KEYHOOK_MASTER_KEY: `${one}, ${two}` }).masterKeys?.map((k) => k.toString('base64'))).toEqual([
    one,
    two,
  ])
})

test('an invalid secret is not repeated in the message', () => {
  const environment = { DATABASE_URL: 'mysql://u:hunter2@db/x', KEYHOOK_MASTER_KEY: 'hunter2hunter2' }
  const problems = problemsOf(environment)
  expect(problems).toHaveLength(2)
  expect(problems.join()).not.toContain('hunter2')
})

test('a secret can be in a file, and the message about one that cannot be used does not show it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'keyhook-secrets-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const masterKey = key()
  const [keyFile, url, empty] = ['key', 'url', 'empty'].map((name) => join(folder, name)) as [string, string, string]
  writeFileSync(keyFile, `${masterKey}\n`)
  writeFileSync(url, 'postgresql://u:hunter2@db/x')
  writeFileSync(empty, '\n')
  const config = readConfig({ DATABASE_URL_FILE: url, KEYHOOK_MASTER_KEY_FILE: keyFile })
  expect(config.masterKeys![0].toString('base64')).toBe(masterKey)
  expect(config.database).toMatchObject({ password: 'hunter2', database: 'x' })
  expect(
    problemsOf({
      DATABASE_URL: 'postgresql://u:hunter2@db/x',
      DATABASE_URL_FILE: url,
      KEYHOOK_MASTER_KEY_FILE: `${keyFile}s`,
    }),
  ).toEqual([
    'DATABASE_URL_FILE: DATABASE_URL is set too, and only one of them may be',
    `KEYHOOK_MASTER_KEY_FILE: "${keyFile}s" cannot be read (ENOENT)`,
    expect.stringContaining('KEYHOOK_MASTER_KEY: is required'),
  ])
  expect(problemsOf({ KEYHOOK_METRICS_TOKEN_FILE: empty })).toEqual([`KEYHOOK_METRICS_TOKEN_FILE: "${empty}" is empty`])
})
