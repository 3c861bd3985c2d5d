import { deliverySettings } from './delivery-settings.ts'
import { mailSettings } from './mail-settings.ts'
import { archiveSettings, kubernetesSettings, platformSettings } from './platform-settings.ts'
import { serverSettings } from './server-settings.ts'
import { InvalidValue, readSecretFiles, type Setting } from './setting.ts'

/*
 * Settings are environment variables, read once. All problems are reported together, nothing is guessed, and an empty value
 * counts as unset. `npm run docs` makes docs/settings.md from them.
 */
export const settings = {
  ...serverSettings,
  ...mailSettings,
  ...platformSettings,
  ...kubernetesSettings,
  ...archiveSettings,
  ...deliverySettings,
}

type Settings = typeof settings
type Value<S> = S extends Setting<infer T> ? (S extends { fallback: string } ? T : T | null) : never
export type Config = { readonly [K in keyof Settings]: Value<Settings[K]> }

export class ConfigProblems extends Error {
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

export function readConfig(given: Record<string, string | undefined>): Config {
  const { environment, problems } = readSecretFiles(Object.values(settings), given)
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(settings) as [string, Setting<unknown>][]) {
    const text = environment[setting.variable]?.trim() || setting.fallback
    try {
      values[name] = text === null ? null : setting.parse(text, environment)
    } catch (error) {
      if (!(error instanceof InvalidValue)) throw error
      problems.push(`${setting.variable}: ${setting.secret ? 'the value' : `"${text}"`} ${error.message}`)
    }
  }
  problems.push(...crossCheck(environment))
  if (problems.length > 0) throw new ConfigProblems(problems)
  return Object.freeze(values) as Config
}

/** A setting, and one that is required with it. */
const needs = [
  [settings.oidcIssuer, settings.oidcAudience],
  [settings.oidcClientId, settings.oidcIssuer],
  [settings.oidcClientId, settings.publicUrl],
  [settings.oidcAudience, settings.oidcIssuer],
  [settings.smtpUrl, settings.mailFrom],
  [settings.smtpUrl, settings.publicUrl],
  [settings.s3AccessKeyId, settings.s3SecretAccessKey],
  [settings.s3SecretAccessKey, settings.s3AccessKeyId],
  [settings.s3Endpoint, settings.s3Bucket],
  [settings.s3Prefix, settings.s3Bucket],
  [settings.s3AccessKeyId, settings.s3Bucket],
] as const

/** Settings that depend on each other. A second node with a master key of its own could read no secret. */
function crossCheck(environment: Readonly<Record<string, string | undefined>>): string[] {
  const has = (setting: Setting<unknown>) => (environment[setting.variable] ?? '').trim() !== ''
  const problems: string[] = []
  if (has(settings.database) && !has(settings.masterKeys)) {
    problems.push('KEYHOOK_MASTER_KEY: is required with DATABASE_URL (create one with: openssl rand -base64 32)')
  }
  if (environment[settings.databaseDriver.variable]?.trim() === 'cloudnativepg') {
    if (!has(settings.s3Bucket)) {
      problems.push('KEYHOOK_S3_BUCKET: is required with KEYHOOK_DATABASE_DRIVER=cloudnativepg')
    }
    if (has(settings.databasesCertificateFile)) {
      problems.push('KEYHOOK_DATABASES_CERTIFICATE_FILE: cannot be used with KEYHOOK_DATABASE_DRIVER=cloudnativepg')
    }
  }
  for (const [given, needed] of needs) {
    if (has(given) && !has(needed)) problems.push(`${needed.variable}: is required with ${given.variable}`)
  }
  if (
    /^(0\.0\.0\.0|[0:]+)$/.test(environment[settings.databasesHost.variable]?.trim() ?? '') &&
    !has(settings.databasesPublicHost)
  ) {
    problems.push(
      'KEYHOOK_DATABASES_PUBLIC_HOST: is required when KEYHOOK_DATABASES_HOST means every address: clients need one to connect to',
    )
  }
  if (has(settings.databasesCertificateFile) !== has(settings.databasesKeyFile)) {
    problems.push('KEYHOOK_DATABASES_CERTIFICATE_FILE and KEYHOOK_DATABASES_KEY_FILE: one is set, and both are needed')
  }
  return problems
}
