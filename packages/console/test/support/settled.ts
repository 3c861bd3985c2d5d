import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** The page has its heading, everything has loaded, and nothing moves or fades any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor()
  await expect.poll(() => page.locator('.skeleton, [aria-busy="true"]').count()).toBe(0)
  await page.evaluate(`Promise.all(
    document.getAnimations()
      .filter((one) => one.effect.getComputedTiming().endTime < 10000)
      .map((one) => one.finished.catch(() => {})))`)
}
