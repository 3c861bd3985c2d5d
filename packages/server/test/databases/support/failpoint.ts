// Loaded before Keyhook by the tests that kill it: kills or freezes the process at the step that the file names.
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync, rmSync } from 'node:fs'

const file = process.env.TEST_FAILPOINT_FILE!

subscribe('keyhook.platform.step', (message) => {
  let wanted: { step: string; signal: NodeJS.Signals }
  try {
    wanted = JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return
  }
  if ((message as { name: string }).name !== wanted.step) return
  rmSync(file)
  process.kill(process.pid, wanted.signal)
})
