import type { Config } from '../config.ts'
import { settings } from '../config.ts'
import type { FirstOrganization } from './first-start.ts'

/** What a person needs next. Every line below "Then" works when pasted into a second terminal in the same folder. */
export function welcome(config: Config, url: string, first: FirstOrganization | null): string {
  const here = sameDataDir(config)
  const lines = ['', `  Keyhook is ready at ${url}`, `  Reference: ${url}/docs`]
  if (first === null) {
    lines.push(
      '',
      `  There is no organization with an owner. Make one${sameSecrets(config)}, with the ids that these commands print:`,
      `    ${here}npx keyhook org create --name "My organization"`,
      `    ${here}npx keyhook user create --email you@example.com`,
      `    ${here}npx keyhook member set --org ORG --user USER --role owner`,
      '',
    )
    return lines.join('\n')
  }
  const orgUrl = `${url}/api/v1/organizations/${first.orgId}`
  const headers = `-H "Authorization: Bearer $TOKEN"`
  const json = `${headers} -H "Content-Type: application/json"`
  lines.push(
    '',
    `  Organization: ${first.orgId}${first.isNew ? ' (made just now)' : ''}`,
    `  Its owner:    ${first.ownerId}`,
    '',
    `  Mint a login token${sameSecrets(config)}:`,
    `    TOKEN=$(${here}npx keyhook token issue --user ${first.ownerId})`,
    '',
    '  Then:',
    `    curl ${headers} ${url}/api/v1/organizations`,
    `    curl -X POST ${json} -d '{"name":"ci"}' ${orgUrl}/api-keys`,
    `    curl -X POST ${json} -d '{"url":"https://example.com/hooks","event_types":["database.created"]}' ${orgUrl}/webhooks`,
    '',
    '  Ctrl-C stops it.',
    '',
  )
  return lines.join('\n')
}

/** Not in the lines themselves, which end up in scrollback. Without the key a command is refused. */
function sameSecrets({ database, masterKeys }: Config): string {
  if (database !== null) return ', where DATABASE_URL and KEYHOOK_MASTER_KEY are set as here'
  return masterKeys === null ? '' : ', where KEYHOOK_MASTER_KEY is set as here'
}

const sameDataDir = (config: Config): string =>
  config.database !== null || config.dataDir === settings.dataDir.fallback
    ? ''
    : `KEYHOOK_DATA_DIR=${shellWord(config.dataDir)} `

const shellWord = (text: string): string => (/^[\w./~-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
