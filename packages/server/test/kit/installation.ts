import { randomBytes } from 'node:crypto'
import { type Logger, pino } from 'pino'
import { inject, onTestFinished } from 'vitest'
import type { Role } from '../../src/access/roles.ts'
import { connect } from '../../src/db/database.ts'
import type { OrgId, UserId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { issueOperatorToken } from '../../src/operator/token-routes.ts'
import { createOrganization, createUser, setMember } from '../../src/organizations/rules.ts'
import { type Config, readConfig } from '../../src/settings/config.ts'
import type { Installation } from '../../src/startup/open.ts'
import { apiAlone } from './composed.ts'
import { templateDatabase } from './postgres.ts'

export const testOperator = { kind: 'operator', tokenId: null, address: null } as const

/** A base of every database would take longer than most tests. Tests of the real program run with the default. */
export const withoutLog = { KEYHOOK_POINT_IN_TIME_RESTORE: 'off' }

/** A new database, cloned from the migrated template; dropped by `close`. */
export async function createInstallation(environment: Record<string, string> = {}): Promise<Installation> {
  const server = inject('postgres')
  const name = `test_${randomBytes(6).toString('hex')}`
  const admin = connect(server, { name: 'test admin', connectionsMax: 1 })
  await admin.unsafe(`create database ${name} template ${templateDatabase}`)
  const target = { ...server, database: name }
  const config: Config = readConfig({ PORT: '0', KEYHOOK_LOG_LEVEL: 'silent', ...withoutLog, ...environment })
  const db = connect(target, { name: 'test', connectionsMax: config.databaseConnections })
  return {
    config,
    db,
    target,
    masterKeys: createMasterKeys(config.masterKeys ?? [randomBytes(32)]),
    applied: [],
    isShared: false,
    announce() {},
    async close() {
      await db.end({ timeout: 5 })
      await admin.unsafe(`drop database if exists ${name} with (force)`)
      await admin.end()
    },
  }
}

export type Person = { userId: UserId; token: string }

/** With an organization and a user. */
export async function createOwnedInstallation() {
  const installation = await createInstallation()
  const who = people(installation)
  const orgId = await who.organization()
  const { userId } = await who.person()
  return { installation, orgId, userId }
}

/** A running API on loopback, and functions that create users with roles. */
export async function startApi(
  environment: Record<string, string> = {},
  log: Logger = pino({ level: 'silent' }),
  consoleDirectory: string | null = null,
) {
  const installation = await createInstallation(environment)
  const api = apiAlone(installation, log, consoleDirectory)
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
  return {
    ...installation,
    url,
    ...people(installation),
    async close() {
      await api.close()
      await installation.close()
    },
  }
}

export type TestApi = Awaited<ReturnType<typeof startApi>>

/** The same for one test; closed when the test ends. */
export async function startApiForTest(environment: Record<string, string> = {}, log?: Logger): Promise<TestApi> {
  const api = await startApi(environment, log)
  onTestFinished(() => api.close())
  return api
}

export function people({ db, masterKeys }: Pick<Installation, 'db' | 'masterKeys'>) {
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  let count = 0
  return {
    issuer,
    async operatorToken(ttlSeconds = 600): Promise<string> {
      const sign = (signed: { tokenId: string; ttlSeconds: number }) =>
        issuer.issue({ subject: 'operator', operator: true, ...signed })
      const issued = await db.begin((tx) => issueOperatorToken(tx, sign, testOperator, { name: null, ttlSeconds }))
      return issued.token
    },
    async organization(name = 'Acme'): Promise<OrgId> {
      const made = await db.begin((tx) => createOrganization(tx, testOperator, { name }))
      return made.id
    },
    async person(memberships: { orgId: OrgId; role: Role }[] = []): Promise<Person> {
      count += 1
      const email = `person-${count}@example.com`
      const { id } = await db.begin((tx) => createUser(tx, { email, name: null, subject: null }))
      for (const membership of memberships) await setMember(db, testOperator, { userId: id, ...membership })
      return { userId: id, token: await issuer.issue({ subject: id, ttlSeconds: 3_600 }) }
    },
  }
}
