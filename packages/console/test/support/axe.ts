import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import { settled } from './settled.ts'

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** All rules in one theme, and those on colours in the other: nothing else differs between them. */
const themes = [
  { theme: 'light', rules: {} },
  { theme: 'dark', rules: { runOnly: ['color-contrast', 'link-in-text-block'] } },
] as const

export const widths = [1280, 390]

/**
 * What axe-core finds. It is run by the debugger: the policy of the page allows no foreign script.
 * Left out are the guards around a menu: they are hidden and can be focused, and hand the focus on in that moment.
 */
async function violations(page: Page, rules: object): Promise<string[]> {
  const debug = await page.context().newCDPSession(page)
  await debug.send('Runtime.evaluate', {
    expression: `globalThis.axe ?? (() => {${await readFile(axePath, 'utf8')}})()`,
  })
  const expression = `axe.run({ exclude: ['[data-base-ui-focus-guard]'] }, ${JSON.stringify(rules)}).then(({ violations }) => JSON.stringify(violations.map(
    ({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', '))))`
  const answer = await debug.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
  await debug.detach()
  return JSON.parse(answer.result.value as string) as string[]
}

/** In both themes, at this width: axe-core finds nothing, and nothing is wider than the window. */
export async function expectAccessible(page: Page, what: string): Promise<void> {
  for (const { theme, rules } of themes) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
    await settled(page)
    const isTooWide = await page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')
    expect([what, theme, await violations(page, rules), isTooWide]).toEqual([what, theme, [], false])
  }
}
