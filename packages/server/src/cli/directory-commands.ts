import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import type { OrganizationRow } from '../access/access.ts'
import { operator } from '../access/audit.ts'
import { isRole, roles } from '../access/roles.ts'
import type { Database } from '../db/database.ts'
import { type Id, type IdPrefix, isId } from '../lib/ids.ts'
import {
  createOrganization,
  createUser,
  noSuch,
  removeMember,
  removeUser,
  setMember,
  verifyUser,
} from '../organizations/directory.ts'
import { listOrganizations } from '../organizations/sql.ts'
import { forgetSubject, listUsers, type UserRow } from '../organizations/users.ts'
import type { Environment } from './installation.ts'
import { withInstallation } from './installation.ts'

const json = ['--json', 'Print one line of JSON'] as const
const pageRows = 500

export function addDirectoryCommands(program: Command, environment: Environment): void {
  const org = program.command('org').description('Organizations')
  org
    .command('create')
    .description('Create an organization')
    .addHelpText(...examples('npx keyhook org create --name "Acme"'))
    .requiredOption('--name <name>', 'Display name')
    .option(...json)
    .action((options: { name: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const { id, name } = await db.begin((tx) => createOrganization(tx, operator, { name: options.name }))
        output.result({ id, name }, `Created the organization ${id} (${name}).`)
      }),
    )
  addOrganizationList(org, environment)

  const user = program.command('user').description('Users')
  user
    .command('create')
    .description('Create a user')
    .addHelpText(...examples('npx keyhook user create --email ada@example.com --name "Ada"'))
    .requiredOption('--email <email>', 'E-mail address, unique')
    .option('--name <name>', 'Full name')
    .option('--subject <sub>', 'The `sub` of this person at your OpenID issuer')
    .option(...json)
    .action((options: { email: string; name?: string; subject?: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const request = { email: options.email, name: options.name ?? null, subject: options.subject ?? null }
        const { id, email } = await db.begin((tx) => createUser(tx, request))
        output.result({ id, email }, `Created the user ${id} (${email}).`)
      }),
    )
  user
    .command('remove')
    .description('Remove a user everywhere; their keys and tokens stop at once')
    .addHelpText(...examples('npx keyhook user remove --user usr_…'))
    .requiredOption('--user <usr>', 'The user')
    .option(...json)
    .action((options: { user: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const userId = idOption('usr', '--user', options.user)
        await removeUser(db, operator, { userId })
        output.result({ removed: userId }, `Removed the user ${userId}.`)
      }),
    )
  user
    .command('verify')
    .description('Confirm that the address of a user is theirs, after an invitation')
    .addHelpText(...examples('npx keyhook user verify --user usr_…'))
    .requiredOption('--user <usr>', 'The user')
    .option(...json)
    .action((options: { user: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const { id, email } = await verifyUser(db, operator, { userId: idOption('usr', '--user', options.user) })
        output.result({ verified: id, email }, `${email} is the confirmed address of ${id}.`)
      }),
    )
  user
    .command('unlink')
    .description('Forget the subject of a user; the next login records its own')
    .addHelpText(...examples('npx keyhook user unlink --user usr_…'))
    .requiredOption('--user <usr>', 'The user')
    .option(...json)
    .action((options: { user: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const userId = idOption('usr', '--user', options.user)
        if (!(await forgetSubject(db, userId))) throw noSuch('user', userId)
        output.result({ unlinked: userId }, `${userId} has no subject any more.`)
      }),
    )
  addUserList(user, environment)

  const member = program.command('member').description('Members of organizations')
  member
    .command('set')
    .description('Add a member, or change the role of one')
    .addHelpText(...examples('npx keyhook member set --org org_… --user usr_… --role admin'))
    .requiredOption('--org <org>', 'The organization')
    .requiredOption('--user <usr>', 'The user')
    .requiredOption('--role <role>', roles.join(', '))
    .option(...json)
    .action((options: { org: string; user: string; role: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const { role } = options
        if (!isRole(role)) throw new UsageError(`--role: ${JSON.stringify(role)} is not one of ${roles.join(', ')}`)
        const member = {
          orgId: idOption('org', '--org', options.org),
          userId: idOption('usr', '--user', options.user),
          role,
        }
        await setMember(db, operator, member)
        output.result(
          { org: member.orgId, user: member.userId, role },
          `${member.userId} is now ${role} of ${member.orgId}.`,
        )
      }),
    )
  member
    .command('remove')
    .description('Remove a member from an organization')
    .addHelpText(...examples('npx keyhook member remove --org org_… --user usr_…'))
    .requiredOption('--org <org>', 'The organization')
    .requiredOption('--user <usr>', 'The user')
    .option('--revoke-keys', 'Also revoke the API keys of the user in this organization')
    .option(...json)
    .action((options: { org: string; user: string; revokeKeys?: boolean; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const member = { orgId: idOption('org', '--org', options.org), userId: idOption('usr', '--user', options.user) }
        await removeMember(db, operator, { ...member, revokesKeys: options.revokeKeys === true })
        output.result({ org: member.orgId, user: member.userId }, `${member.userId} is no longer in ${member.orgId}.`)
      }),
    )
}

export function idOption<P extends IdPrefix>(prefix: P, option: string, text: string): Id<P> {
  if (!isId(prefix, text))
    throw new UsageError(`${option}: ${JSON.stringify(text)} is not an id such as ${prefix}_01h455vb4pex5vsknk084sn02q`)
  return text
}

function addOrganizationList(org: Command, environment: Environment): void {
  org
    .command('list')
    .description('Show every organization, the oldest first')
    .option('--json', 'Print one line of JSON, an array')
    .addHelpText(...examples('npx keyhook org list | grep Acme'))
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, ({ db }, output) =>
        output.list(pagesOf(db, listOrganizations), (page) => page.map(organizationLine)),
      ),
    )
}

function addUserList(user: Command, environment: Environment): void {
  user
    .command('list')
    .description('Show every user, the oldest first')
    .option('--json', 'Print one line of JSON, an array')
    .addHelpText(...examples('npx keyhook user list | grep ada@example.com'))
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, ({ db }, output) =>
        output.list(pagesOf(db, listUsers), (page) => {
          const width = Math.max(...page.map(({ email }) => email.length))
          return page.map((one) => userLine(one, width))
        }),
      ),
    )
}

/** Page by page: there may be more than fit into memory. */
async function* pagesOf<Row extends { id: string }>(
  db: Database,
  read: (db: Database, after: string, limit: number) => PromiseLike<Row[]>,
): AsyncGenerator<Row[]> {
  let last = ''
  for (;;) {
    const page = await read(db, last, pageRows)
    if (page.length > 0) yield [...page]
    if (page.length < pageRows) return
    last = page.at(-1)!.id
  }
}

const day = (time: Date): string => time.toISOString().slice(0, 10)

const organizationLine = ({ id, created_at, name }: OrganizationRow): string => `${id}  ${day(created_at)}  ${name}`

const userLine = ({ id, created_at, email, name, verified_by }: UserRow, width: number): string =>
  `${id}  ${day(created_at)}  ${email.padEnd(width)}  ${verified_by === null ? '(unverified)' : (name ?? '')}`.trimEnd()
