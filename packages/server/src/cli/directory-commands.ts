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
} from '../organizations/rules.ts'
import { listOrganizations } from '../organizations/sql.ts'
import { forgetSubject, listUsers, type UserRow } from '../organizations/users.ts'
import type { Environment } from './installation.ts'
import { withInstallation } from './installation.ts'

const json = ['--json', 'Print one line of JSON'] as const
const pageRows = 500

export function addDirectoryCommands(program: Command, environment: Environment): void {
  const org = program.command('org').description('Create and list organizations')
  org
    .command('create')
    .description('Create an organization')
    .addHelpText(...examples('npx keyhook org create --name "Acme"'))
    .requiredOption('--name <name>', 'Give the organization this name')
    .option(...json)
    .action((options: { name: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const { id, name } = await db.begin((tx) => createOrganization(tx, operator, { name: options.name }))
        output.result({ id, name }, `Created the organization ${id} (${name}).`)
      }),
    )
  addOrganizationList(org, environment)

  const user = program.command('user').description('Create, list, verify, unlink and remove users')
  user
    .command('create')
    .description('Create a user')
    .addHelpText(...examples('npx keyhook user create --email ada@example.com --name "Ada"'))
    .requiredOption('--email <email>', 'Give the user this e-mail address, which no other user may have')
    .option('--name <name>', 'Give the user this full name')
    .option('--subject <sub>', 'Accept login tokens with this `sub` of your OpenID issuer as this user')
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
    .description('Remove a user from all organizations; the keys and tokens of the user stop at once')
    .addHelpText(...examples('npx keyhook user remove --user usr_…'))
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
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
    .description('Confirm the e-mail address of a user who joined with an invitation link')
    .addHelpText(...examples('npx keyhook user verify --user usr_…'))
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .option(...json)
    .action((options: { user: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const { id, email } = await verifyUser(db, operator, { userId: idOption('usr', '--user', options.user) })
        output.result({ verified: id, email }, `${email} is the confirmed address of ${id}.`)
      }),
    )
  user
    .command('unlink')
    .description('Remove the OpenID subject of a user; the next login of the user records a new one')
    .addHelpText(...examples('npx keyhook user unlink --user usr_…'))
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .option(...json)
    .action((options: { user: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const userId = idOption('usr', '--user', options.user)
        if (!(await forgetSubject(db, userId))) throw noSuch('user', userId)
        output.result({ unlinked: userId }, `The subject of ${userId} was removed.`)
      }),
    )
  addUserList(user, environment)

  const member = program.command('member').description('Add and remove members of organizations')
  member
    .command('set')
    .description('Add a user to an organization, or change the role of a member')
    .addHelpText(...examples('npx keyhook member set --org org_… --user usr_… --role admin'))
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .requiredOption('--role <role>', `Give the member this role: ${roles.join(', ')}`)
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
    .description('Remove a user from an organization')
    .addHelpText(...examples('npx keyhook member remove --org org_… --user usr_…'))
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .option('--revoke-keys', 'Also revoke the API keys of the user in this organization')
    .option(...json)
    .action((options: { org: string; user: string; revokeKeys?: boolean; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const member = { orgId: idOption('org', '--org', options.org), userId: idOption('usr', '--user', options.user) }
        await removeMember(db, operator, { ...member, revokesKeys: options.revokeKeys === true })
        output.result(
          { org: member.orgId, user: member.userId },
          `${member.userId} is no longer a member of ${member.orgId}.`,
        )
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
    .description('List all organizations, the oldest first')
    .option('--json', 'Print a JSON array on one line')
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
    .description('List all users, the oldest first')
    .option('--json', 'Print a JSON array on one line')
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
