import type { Command } from 'commander'
import { type Environment, withInstallation } from './with-installation.ts'

export function addMaintenanceCommands(program: Command, environment: Environment): void {
  program
    .command('migrate')
    .description('Bring the database schema up to date (serve does this by itself)')
    .option('--json', 'Print one line of JSON')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, async ({ applied }, output) => {
        const names = applied.map(({ version, name }) => `${String(version).padStart(4, '0')}_${name}`)
        output.result(
          { applied: names },
          names.length === 0 ? 'The schema is up to date.' : `Applied ${names.join(', ')}.`,
        )
      }),
    )
}
