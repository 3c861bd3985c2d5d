import type { MemberRole, OrganizationMember } from '@keyhook/client'
import { Option } from 'commander'
import type { KeyhookCommand } from '../program.ts'
import { confirm } from '../prompt.ts'
import { customerCommand } from '../session.ts'
import { type Column, shortTime } from '../table.ts'

const columns: Column<OrganizationMember>[] = [
  { title: 'ID', of: ({ user_id }) => user_id },
  { title: 'ROLE', of: ({ role }) => role },
  { title: 'WHO', of: whoOf, mayShrink: true },
  { title: 'SINCE (UTC)', of: ({ created_at }) => shortTime(created_at) },
]

function whoOf({ service, email, name }: OrganizationMember): string {
  return service ? `${name} (service member)` : (email ?? '')
}

export function addCommands(program: KeyhookCommand): void {
  const members = program.command('members')
  customerCommand(members, 'list', 'List the members of the organization, newest first')
    .examples('npx keyhook members list')
    .list('members', columns, 'The organization has no members.', (client, limit) => client.members.list({ limit }))
  customerCommand(members, 'create-service', 'Create a service member, for API keys that outlive a person')
    .examples(
      'npx keyhook members create-service --name deploy --role member',
      'npx keyhook keys create --name ci --for usr_…',
    )
    .requiredOption('--name <name>', 'Give the service member this name')
    .addOption(
      new Option('--role <role>', 'Give the service member this role')
        .choices(['admin', 'member'])
        .makeOptionMandatory(),
    )
    .run(async ({ client, output }, { name, role }: { name: string; role: 'admin' | 'member' }) => {
      const member = await client.serviceMembers.create({ name, role })
      output.result(
        member,
        `Created the service member ${member.user_id} (${name}). Create a key: npx keyhook keys create --name ci --for ${member.user_id}`,
      )
    })
  customerCommand(members, 'update <user>', 'Change the role of a member')
    .examples('npx keyhook members update usr_… --role admin')
    .addOption(
      new Option('--role <role>', 'Give the member this role')
        .choices(['owner', 'admin', 'member'])
        .makeOptionMandatory(),
    )
    .run(async ({ client, output }, { role }: { role: MemberRole }, userId: string) => {
      const member = await client.members.update(userId, { role })
      output.result(member, `${whoOf(member)} is now ${member.role}.`)
    })
  customerCommand(members, 'remove <user>', 'Remove a member; the API keys of the member are refused at once')
    .examples('npx keyhook members remove usr_…', 'npx keyhook members remove usr_… --revoke-keys --yes')
    .option('--revoke-keys', 'Also revoke the keys, which otherwise work again if the user becomes a member again')
    .option('--yes', 'Remove without asking for confirmation')
    .run(async ({ client, output }, options: { revokeKeys?: true; yes?: boolean }, userId: string) => {
      await confirm(`This removes ${userId} from the organization. API keys of ${userId} are refused at once.`, options)
      await client.members.remove(userId, { revokeKeys: options.revokeKeys === true })
      output.result({ removed: userId }, `Removed ${userId}.`)
    })
}
