import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import type { OrganizationRow } from '../access/access.ts'
import { operator } from '../access/audit.ts'
import { isRole, roles } from '../access/roles.ts'
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
import { addDeletion } from './deletion-commands.ts'
import { operatorCommand } from './installation.ts'

export function addCommands(program: KeyhookCommand): void {
  const org = program.command('org')
  operatorCommand(org, 'create', 'Create an organization')
    .examples('npx keyhook org create --name "Acme"')
    .requiredOption('--name <name>', 'Give the organization this name')
    .run(async ({ db }, output, options: { name: string }) => {
      const { id, name } = await db.begin((tx) => createOrganization(tx, operator, { name: options.name }))
      output.result({ id, name }, `Created the organization ${id} (${name}).`)
    })
  operatorCommand(org, 'list', 'List all organizations, the oldest first')
    .examples('npx keyhook org list | grep Acme')
    .list(listOrganizations, (page) => page.map(organizationLine))
  addDeletion(org, 'organization')

  const user = program.command('user')
  operatorCommand(user, 'create', 'Create a user')
    .examples('npx keyhook user create --email ada@example.com --name "Ada"')
    .requiredOption('--email <email>', 'Give the user this e-mail address, which no other user may have')
    .option('--name <name>', 'Give the user this full name')
    .option('--subject <sub>', 'Accept login tokens with this `sub` of your OpenID issuer as this user')
    .run(async ({ db }, output, options: { email: string; name?: string; subject?: string }) => {
      const request = { email: options.email, name: options.name ?? null, subject: options.subject ?? null }
      const { id, email } = await db.begin((tx) => createUser(tx, request))
      output.result({ id, email }, `Created the user ${id} (${email}).`)
    })
  operatorCommand(user, 'remove', 'Remove a user from all organizations; the keys and tokens of the user stop at once')
    .examples('npx keyhook user remove --user usr_…')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .run(async ({ db }, output, options: { user: string }) => {
      const userId = idOption('usr', '--user', options.user)
      await removeUser(db, operator, { userId })
      output.result({ removed: userId }, `Removed the user ${userId}.`)
    })
  addDeletion(user, 'user')
  operatorCommand(user, 'verify', 'Confirm the e-mail address of a user who joined with an invitation link')
    .examples('npx keyhook user verify --user usr_…')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .run(async ({ db }, output, options: { user: string }) => {
      const { id, email } = await verifyUser(db, operator, { userId: idOption('usr', '--user', options.user) })
      output.result({ verified: id, email }, `${email} is the confirmed address of ${id}.`)
    })
  operatorCommand(user, 'unlink', 'Remove the OpenID subject of a user; the next login of the user records a new one')
    .examples('npx keyhook user unlink --user usr_…')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .run(async ({ db }, output, options: { user: string }) => {
      const userId = idOption('usr', '--user', options.user)
      if (!(await forgetSubject(db, userId))) throw noSuch('user', userId)
      output.result({ unlinked: userId }, `The subject of ${userId} was removed.`)
    })
  operatorCommand(user, 'list', 'List all users, the oldest first')
    .examples('npx keyhook user list | grep ada@example.com')
    .list(listUsers, (page) => {
      const width = Math.max(...page.map(({ email }) => email?.length ?? 0))
      return page.map((one) => userLine(one, width))
    })

  const member = program.command('member')
  operatorCommand(member, 'set', 'Add a user to an organization, or change the role of a member')
    .examples('npx keyhook member set --org org_… --user usr_… --role admin')
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .requiredOption('--role <role>', `Give the member this role: ${roles.join(', ')}`)
    .run(async ({ db }, output, options: { org: string; user: string; role: string }) => {
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
    })
  operatorCommand(member, 'remove', 'Remove a user from an organization')
    .examples('npx keyhook member remove --org org_… --user usr_…')
    .requiredOption('--org <org>', 'The id of the organization (org_…)')
    .requiredOption('--user <usr>', 'The id of the user (usr_…)')
    .option('--revoke-keys', 'Also revoke the API keys of the user in this organization')
    .run(async ({ db }, output, options: { org: string; user: string; revokeKeys?: boolean }) => {
      const member = { orgId: idOption('org', '--org', options.org), userId: idOption('usr', '--user', options.user) }
      await removeMember(db, operator, { ...member, revokesKeys: options.revokeKeys === true })
      output.result(
        { org: member.orgId, user: member.userId },
        `${member.userId} is no longer a member of ${member.orgId}.`,
      )
    })
}

export function idOption<P extends IdPrefix>(prefix: P, option: string, text: string): Id<P> {
  if (!isId(prefix, text))
    throw new UsageError(`${option}: ${JSON.stringify(text)} is not an id such as ${prefix}_01h455vb4pex5vsknk084sn02q`)
  return text
}

const day = (time: Date): string => time.toISOString().slice(0, 10)

const organizationLine = ({ id, created_at, name }: OrganizationRow): string => `${id}  ${day(created_at)}  ${name}`

function userLine({ id, created_at, email, name, verified_by, is_service }: UserRow, width: number): string {
  const who = is_service ? `${name} (service member)` : verified_by === null ? '(unverified)' : (name ?? '')
  return `${id}  ${day(created_at)}  ${(email ?? '').padEnd(width)}  ${who}`.trimEnd()
}
