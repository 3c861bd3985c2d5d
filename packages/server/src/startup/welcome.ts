import { operator } from '../access/audit.ts'
import type { Database, Executor } from '../db/database.ts'
import type { OrgId, UserId } from '../lib/ids.ts'
import { createOrganization, createUser, setMemberIn } from '../organizations/rules.ts'
import { countOrganizations } from '../organizations/sql.ts'
import { findUserByEmail } from '../organizations/users.ts'
import { type Config, settings } from '../settings/config.ts'

export type FirstOrganization = { orgId: OrgId; ownerId: UserId; isNew: boolean }

/**
 * The first organization with its owner. An empty installation gets one if it may, so that there is something to try. The lock makes
 * nodes that start together on an empty database create only one.
 */
export async function ensureFirstOrganization(
  db: Database,
  { mayCreate }: { mayCreate: boolean },
): Promise<FirstOrganization | null> {
  if (!mayCreate) return findFirst(db)
  return db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.first_start', 0))`
    if ((await countOrganizations(tx)) > 0) return findFirst(tx)
    const organization = await createOrganization(tx, operator, { name: 'First organization' })
    const email = 'owner@localhost'
    // Left by a first organization that was deleted.
    const userId =
      (await findUserByEmail(tx, email)) ?? (await createUser(tx, { email, name: 'Owner', subject: null })).id
    await setMemberIn(tx, operator, { orgId: organization.id, userId, role: 'owner' })
    return { orgId: organization.id, ownerId: userId, isNew: true }
  })
}

/** The oldest organization with an owner, for the lines that we print. */
async function findFirst(db: Executor): Promise<FirstOrganization | null> {
  const [row] = await db<{ org_id: OrgId; user_id: UserId }[]>`
    select org_id, user_id from keyhook.memberships where role = 'owner' order by org_id, user_id limit 1`
  return row === undefined ? null : { orgId: row.org_id, ownerId: row.user_id, isNew: false }
}

/** Printed when the server is ready. The lines below "Try it" work when pasted into another terminal in the same folder. */
export function welcome(
  config: Config,
  url: string,
  first: FirstOrganization | null,
  consoleUrl: string | null,
): string {
  const here = sameDataDir(config)
  const lines = [
    '',
    `  Keyhook is ready at ${url}`,
    `  Reference: ${url}/docs`,
    ...(consoleUrl === null ? [] : [`  Console: ${consoleUrl}${onceOnly(consoleUrl)}`]),
    '',
  ]
  if (first === null) {
    lines.push(
      `  There is no organization with an owner. Create one in another terminal${sameSecrets(config)}, with the ids that these commands print:`,
      `    ${here}npx keyhook org create --name "My organization"`,
      `    ${here}npx keyhook user create --email you@example.com`,
      `    ${here}npx keyhook member set --org ORG --user USER --role owner`,
    )
  } else {
    const authorization = `-H "Authorization: Bearer $TOKEN"`
    const post = `curl ${authorization} -H "Content-Type: application/json"`
    const webhook = '{"url":"https://example.com/hooks","event_types":["database.created"]}'
    if (first.isNew) lines.push('  This is the first start: an organization and its owner were created.', '')
    lines.push(
      `  Try it in another terminal${sameSecrets(config)}:`,
      `    ORG=${first.orgId}`,
      `    TOKEN=$(${here}npx keyhook token issue --user ${first.ownerId})`,
      `    curl ${authorization} ${url}/api/v1/organizations`,
      `    ${post} -d '{"name":"ci"}' ${url}/api/v1/organizations/$ORG/api-keys`,
      `    ${post} -d '${webhook}' ${url}/api/v1/organizations/$ORG/webhooks`,
      '',
      '  Or log in there, and work with commands ("npx keyhook --help" lists them):',
      `    ${here}npx keyhook token issue --user ${first.ownerId} | npx keyhook login --url ${url} --token-stdin`,
    )
  }
  return [...lines, '', '  Ctrl-C stops the server.', ''].join('\n')
}

/** A link with a secret signs in. */
const onceOnly = (consoleUrl: string): string => (consoleUrl.includes('#') ? ' (works once, for 10 minutes)' : '')

/** Secrets are not part of the lines, which stay in the terminal's scrollback. Without them a command is refused. */
function sameSecrets({ database, masterKeys }: Config): string {
  if (database !== null) return ', where DATABASE_URL and KEYHOOK_MASTER_KEY are set as here'
  return masterKeys === null ? '' : ', where KEYHOOK_MASTER_KEY is set as here'
}

const sameDataDir = (config: Config): string =>
  config.database !== null || config.dataDir === settings.dataDir.fallback
    ? ''
    : `KEYHOOK_DATA_DIR=${shellWord(config.dataDir)} `

const shellWord = (text: string): string => (/^[\w./~-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
