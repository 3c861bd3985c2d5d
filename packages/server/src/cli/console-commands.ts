import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { readServerAddress } from '../embedded/data-directory.ts'
import { createSignInLink, linkMinutes } from '../http/console/sign-in.ts'
import { isId, type UserId } from '../kernel/ids.ts'
import { noSuch } from '../operator/directory.ts'
import type { Installation } from '../startup/open.ts'
import { findUserByEmail, userExists } from '../store/users.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

type Options = { user?: string; operator?: true; url?: string; json?: boolean }

export function addConsoleCommands(program: Command, environment: Environment): void {
  program
    .command('console')
    .description('The web console')
    .command('link')
    .description('Print a link that signs in to the console once')
    .addHelpText(...examples('npx keyhook console link --user you@example.com', 'npx keyhook console link --operator'))
    .option('--user <usr>', 'The user to sign in: an e-mail address or an id')
    .option('--operator', 'Sign in as the operator')
    .option('--url <url>', 'Address of the server; without it KEYHOOK_PUBLIC_URL, or that of the server that runs here')
    .option('--json', 'Print one line of JSON')
    .action((options: Options) =>
      withInstallation(environment, options, async (installation, output) => {
        const userId = await whoSignsIn(installation, options)
        const { publicUrl, port, dataDir } = installation.config
        const running = installation.isShared ? await readServerAddress(dataDir) : undefined
        const address = options.url ?? publicUrl ?? running ?? `http://127.0.0.1:${port}`
        const url = address.replace(/\/+$/, '') + (await createSignInLink(installation.db, userId))
        output.result({ url }, url)
        output.note(`It works once, for ${linkMinutes} minutes.`)
      }),
    )
}

/** Null for the operator. */
async function whoSignsIn({ db }: Installation, { user, operator }: Options): Promise<UserId | null> {
  if ((user === undefined) === (operator === undefined))
    throw new UsageError('The link needs --user EMAIL or --operator, and not both')
  if (user === undefined) return null
  if (user.includes('@')) {
    const found = await findUserByEmail(db, user)
    if (found === null)
      throw new UsageError(`No user has the e-mail address ${user}. "npx keyhook user list" shows all.`)
    return found
  }
  if (!isId('usr', user))
    throw new UsageError(`--user: ${JSON.stringify(user)} is not an e-mail address or an id (usr_…)`)
  if (!(await userExists(db, user))) throw noSuch('user', user)
  return user
}
