// Loaded before Keyhook by the tests that kill it: ends the process, as kill -9 would, at the step that the file names.
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync, rmSync } from 'node:fs'

const file = process.env.TEST_FAILPOINT_FILE!

subscribe('keyhook.platform.step', (message) => {
  let wanted: string
  try {
    wanted = readFileSync(file, 'utf8')
  } catch {
    return
  }
  if ((message as { name: string }).name !== wanted) return
  rmSync(file)
  process.kill(process.pid, 'SIGKILL')
})
