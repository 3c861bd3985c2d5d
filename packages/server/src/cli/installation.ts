import { createOutput, exitOnSignal, type Output } from '@keyhook/cli'
import { type Config, readConfig } from '../settings/config.ts'
import { type Installation, type OpenOptions, openInstallation } from '../startup/open.ts'

/** Reads the settings from the environment, with some replaced by the command. */
export type Environment = (overrides?: Readonly<Record<string, string>>) => Config

export const environment: Environment = (overrides) => readConfig({ ...process.env, ...overrides })

/** Opens the installation for one short command, with or without a running server, and closes it afterwards. */
export async function withInstallation(
  environment: Environment,
  { json }: { json?: boolean },
  work: (installation: Installation, output: Output) => Promise<void>,
  more: Pick<OpenOptions, 'keysMayBeMissing'> = {},
): Promise<void> {
  const output = createOutput(json ?? false)
  await exitOnSignal(async () => {
    const installation = await openInstallation(environment(), { purpose: 'command', note: output.note, ...more })
    try {
      await work(installation, output)
    } finally {
      await installation.close()
    }
  })
}
