import type { Organization } from '@keyhook/client'
import type { KeyhookCommand } from '../program.ts'
import { customerCommand } from '../session.ts'
import { type Column, shortTime } from '../table.ts'

const columns: Column<Organization>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name, mayShrink: true },
  { title: 'CREATED (UTC)', of: ({ created_at }) => shortTime(created_at) },
]

export function addCommands(program: KeyhookCommand): void {
  const organizations = program.command('organizations')
  customerCommand(organizations, 'list', 'List the organizations that you are in, newest first')
    .examples('npx keyhook organizations list')
    .list('organizations', columns, 'You are in no organization.', (client, limit) =>
      client.organizations.list({ limit }),
    )
  customerCommand(organizations, 'delete', 'Delete the organization for good, with its databases, backups and history')
    .examples('npx keyhook organizations delete --org org_… --confirm "Acme"')
    .requiredOption('--confirm <name>', 'The name of the organization, exactly')
    .run(async ({ client, orgId, output }, { confirm }: { confirm: string }) => {
      const deletion = await client.organizations.delete(orgId, { confirm })
      output.result(deletion, `${orgId} is deleted. Its API keys are refused; what is stored is being erased.`)
    })
}
