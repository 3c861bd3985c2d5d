import type { Command } from 'commander'
import type { Database } from '../db/database.ts'
import { listOrganizations, type OrganizationRow } from '../store/organizations.ts'
import { listUsers, type UserRow } from '../store/users.ts'
import { type Environment, withInstallation } from './with-installation.ts'

const pageRows = 500

export function addOrganizationList(org: Command, environment: Environment): void {
  org
    .command('list')
    .description('Show every organization, the oldest first')
    .option('--json', 'Print one line of JSON, an array')
    .addHelpText('after', '\nExample:\n  npx keyhook org list | grep Acme')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, ({ db }, output) =>
        output.list(pagesOf(db, listOrganizations), (page) => page.map(organizationLine)),
      ),
    )
}

export function addUserList(user: Command, environment: Environment): void {
  user
    .command('list')
    .description('Show every user, the oldest first')
    .option('--json', 'Print one line of JSON, an array')
    .addHelpText('after', '\nExample:\n  npx keyhook user list | grep ada@example.com')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, ({ db }, output) =>
        output.list(pagesOf(db, listUsers), (page) => {
          const width = Math.max(...page.map(({ email }) => email.length))
          return page.map((one) => userLine(one, width))
        }),
      ),
    )
}

/** One page after the other: there may be more than fit into memory. */
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

const userLine = ({ id, created_at, email, name }: UserRow, width: number): string =>
  `${id}  ${day(created_at)}  ${email.padEnd(width)}  ${name ?? ''}`.trimEnd()
