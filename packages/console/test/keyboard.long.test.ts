import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { api, consoleUrl, inBrowser, openAs, owner } from './support/console-test.ts'
import { settled } from './support/settled.ts'

/** What has the focus, and whether that can be seen. */
const focused = (page: Page) =>
  page.evaluate<{ name: string; isVisible: boolean } | null>(`(() => {
    const element = document.activeElement
    if (element === null || element === document.body) return null
    const { outlineStyle, outlineWidth } = getComputedStyle(element)
    const isVisible = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2
    return { name: element.ariaLabel || element.textContent || element.tagName, isVisible }
  })()`)

/** Waits until this is what the keyboard goes to. */
const hasFocus = (what: Locator): Promise<void> => what.and(what.page().locator(':focus')).waitFor()

/** Presses Tab until the focus leaves the page. */
async function tabStops(page: Page): Promise<string[]> {
  const names: string[] = []
  for (let i = 0; i < 100; i++) {
    await page.keyboard.press('Tab')
    const stop = await focused(page)
    if (stop === null) break
    expect(stop).toEqual({ ...stop, isVisible: true })
    names.push(stop.name)
  }
  return names
}

inBrowser('with the keyboard alone', () => {
  test('everything on a page is reached in order, and the focus is always seen', async () => {
    const page = await openAs(owner, '/webhooks')
    for (const theme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: theme })
      for (const path of ['/webhooks', '/webhooks/new', '/deliveries', '/audit']) {
        await page.goto(consoleUrl(path))
        await settled(page)
        const names = await tabStops(page)
        expect(names[0]).toBe('Skip to content')
        expect(names.length).toBeGreaterThan(12)
        expect(names.length).toBeLessThan(100)
      }
    }
  })

  test('a key is created and revoked', async () => {
    const page = await openAs(owner, '/keys')
    await settled(page)
    const press = (key: string) => page.keyboard.press(key)
    await press('Control+k')
    await page.getByPlaceholder('Search, or paste an id…').waitFor()
    await page.keyboard.type('create api')
    await page.getByRole('option', { name: 'Create API key' }).waitFor()
    await press('Enter')
    const dialog = page.getByRole('dialog')
    await hasFocus(dialog.getByLabel('Name'))
    await page.keyboard.type('by keyboard')
    await press('Enter')
    await dialog.getByLabel('API key', { exact: true }).waitFor()
    // A key that is shown once does not vanish with a click beside the dialog.
    await page.mouse.click(5, 5)
    expect(await dialog.count()).toBe(1)
    await press('Escape')
    await dialog.waitFor({ state: 'detached' })

    const revoke = page.getByRole('button', { name: 'Revoke by keyboard' })
    await revoke.focus()
    await press('Enter')
    await dialog.getByRole('heading', { name: 'Revoke “by keyboard”?' }).waitFor()
    await press('Escape')
    await dialog.waitFor({ state: 'detached' })
    // The focus returns to where it was, so that the next Tab goes on from there.
    await hasFocus(revoke)
    await press('Enter')
    await dialog.getByRole('button', { name: 'Revoke key' }).focus()
    await press('Enter')
    await page.getByRole('heading', { name: 'No active API keys' }).waitFor()
  })

  test('the palette goes to every page, and menus are used with arrows', async () => {
    const page = await openAs(owner, '')
    for (const [name, path] of [
      ['deliver', '/deliveries'],
      ['audit', '/audit'],
      ['settings', '/settings'],
    ]) {
      await settled(page)
      await page.keyboard.press('Control+k')
      await page.getByPlaceholder('Search, or paste an id…').waitFor()
      await page.keyboard.type(name!)
      await page.keyboard.press('Enter')
      await page.waitForURL(consoleUrl(path!))
    }
    await settled(page)
    await page.getByRole('button', { name: /^Account/ }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Dark' }).waitFor()
    await page.keyboard.press('d')
    await hasFocus(page.getByRole('menuitem', { name: 'Dark' }))
    await page.keyboard.press('Enter')
    await expect.poll(() => page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
    await page.reload()
    await settled(page)
    expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
    expect(page.url()).toContain(api.url)
  })
})
