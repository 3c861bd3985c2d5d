import type { Command } from 'commander'
import { createSignInLink, linkMinutes } from '../http/console/sign-in.ts'
import type { UserId } from '../kernel/ids.ts'
import { noSuch } from '../operator/directory.ts'
import type { Installation } from '../startup/open.ts'
import { userExists } from '../store/users.ts'
import { examples } from '../terminal/examples.ts'
import { UsageError } from '../terminal/output.ts'
import { idOption } from './directory-commands.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

type Options = { user?: string; operator?: true; url?: string; json?: boolean }

export function addConsoleCommands(program: Command, environment: Environment): void {
  program
    .command('console')
    .description('The web console')
    .command('link')
    .description('Print a link that signs in to the console once')
    .addHelpText(...examples('npx keyhook console link --user usr_…', 'npx keyhook console link --operator'))
    .option('--user <usr>', 'The user to sign in')
    .option('--operator', 'Sign in as the operator')
    .option('--url <url>', 'Address of the server (KEYHOOK_PUBLIC_URL)')
    .option('--json', 'Print one line of JSON')
    .action((options: Options) =>
      withInstallation(environment, options, async (installation, output) => {
        const userId = await whoSignsIn(installation, options)
        const { publicUrl, port } = installation.config
        const address = options.url ?? publicUrl ?? `http://127.0.0.1:${port}`
        const url = address.replace(/\/+$/, '') + (await createSignInLink(installation.db, userId))
        output.result({ url }, url)
        output.note(`It works once, for ${linkMinutes} minutes.`)
      }),
    )
}

/** Null for the operator. */
async function whoSignsIn({ db }: Installation, { user, operator }: Options): Promise<UserId | null> {
  if ((user === undefined) === (operator === undefined))
    throw new UsageError('The link needs --user USER or --operator, and not both')
  if (user === undefined) return null
  const userId = idOption('usr', '--user', user)
  if (!(await userExists(db, userId))) throw noSuch('user', userId)
  return userId
}
