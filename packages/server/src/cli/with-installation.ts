import { createOutput, exitOnSignal, type Output } from '@keyhook/cli'
import { type Installation, type OpenOptions, openInstallation } from '../startup/open.ts'
import type { Environment } from './environment.ts'

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
