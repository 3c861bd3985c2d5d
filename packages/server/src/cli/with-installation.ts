import type { Config } from '../config.ts'
import { type Installation, type OpenOptions, openInstallation } from '../startup/open.ts'
import { createOutput, type Output } from './output.ts'
import { endingAtOnce } from './stop-signal.ts'

/** What the environment says, but for what a command knows better. */
export type Environment = (instead?: Readonly<Record<string, string>>) => Config

/** Opens the installation for one short command, beside a running server or without one, and closes it again. */
export async function withInstallation(
  environment: Environment,
  { json }: { json?: boolean },
  work: (installation: Installation, output: Output) => Promise<void>,
  more: Pick<OpenOptions, 'keysMayBeMissing'> = {},
): Promise<void> {
  const output = createOutput(json ?? false)
  await endingAtOnce(async () => {
    const installation = await openInstallation(environment(), { purpose: 'command', note: output.note, ...more })
    try {
      await work(installation, output)
    } finally {
      await installation.close()
    }
  })
}
