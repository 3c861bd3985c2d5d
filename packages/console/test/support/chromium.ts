import { existsSync } from 'node:fs'

const places = [process.env.KEYHOOK_TEST_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser']

/** A Chromium of this machine; undefined without one. */
export const chromiumPath = places.find((path) => path !== undefined && existsSync(path))

export default function setup(): void {
  if (chromiumPath !== undefined) return
  console.log(
    'The tests of the console are skipped: no Chromium. "apt-get install chromium" adds it, KEYHOOK_TEST_CHROMIUM names another.',
  )
}
