import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import type { OrgId, UserId } from '../../../server/src/lib/ids.ts'
import { createSignInLink } from '../../../server/src/login/console-sessions.ts'
import { deliveryEnvironment } from '../../../server/test/delivery/support/delivery-test.ts'
import { dispatcherAlone } from '../../../server/test/kit/composed.ts'
import { type Person, startApi, type TestApi } from '../../../server/test/kit/installation.ts'
import { builtConsole } from './built-console.ts'
import { chromiumPath } from './chromium.ts'

/*
 * The built console in a real browser, against a real server with a dispatcher, for the tests of one file.
 */

export let api: TestApi
export let orgId: OrgId
export let owner: Person
export let member: Person
let browser: Browser
let engine: Awaited<ReturnType<typeof dispatcherAlone>>

/** Like `describe`, with a browser; skipped without one. */
export function inBrowser(name: string, tests: () => void): void {
  describe.skipIf(chromiumPath === undefined)(name, () => {
    beforeAll(start)
    afterAll(stop)
    tests()
  })
}

async function start(): Promise<void> {
  const environment = { ...deliveryEnvironment, KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1h' }
  api = await startApi(environment, undefined, await builtConsole())
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  member = await api.person([{ orgId, role: 'member' }])
  engine = await dispatcherAlone(api)
  browser = await chromium.launch({ executablePath: chromiumPath!, args: ['--no-sandbox'] })
}

async function stop(): Promise<void> {
  await browser.close()
  await engine.stop()
  await api.close()
}

export const signInLink = (userId: UserId | null): Promise<string> =>
  createSignInLink(api.db, userId).then((path) => `${api.url}${path}`)

/**
 * A page of a new browser session, closed with the test. Any error in the console of the browser fails the test, and so does
 * anything that the Content-Security-Policy forbids; both in every tab of the session.
 */
export async function newPage(options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  context.setDefaultTimeout(40_000)
  const errors: string[] = []
  context.on('weberror', (error) => errors.push(error.error().message))
  context.on('console', (message) => {
    // Chromium reports each answer of 4xx here; pages show those themselves.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) errors.push(message.text())
  })
  await context.exposeFunction('reportViolation', (text: string) => errors.push(text))
  await context.addInitScript(`addEventListener('securitypolicyviolation', (event) =>
    reportViolation(event.violatedDirective + ' forbids ' + event.blockedURI + ' at ' + location.href))`)
  onTestFinished(async () => {
    await context.close()
    expect(errors).toEqual([])
  })
  return context.newPage()
}

/** A page that is signed in, at a path below the organization. */
export async function openAs(person: Person, path: string, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await newPage(options)
  await page.goto(await signInLink(person.userId))
  await page.waitForURL(`**/console/${orgId}`)
  if (path !== '') await page.goto(consoleUrl(path))
  return page
}

export const consoleUrl = (path: string): string => `${api.url}/console/${orgId}${path}`
