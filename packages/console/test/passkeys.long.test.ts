import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { startApi } from '../../server/test/kit/installation.ts'
import { linkFor } from '../../server/test/login/browser.ts'
import { atLocalhost } from '../../server/test/login/support/passkeys.ts'
import { builtConsole } from './support/built-console.ts'
import { api, inBrowser, newPage, orgId, owner, signInLink } from './support/console-test.ts'

/** A security key of Chromium, which needs no finger. `isUserVerified: false`: the person does not confirm. */
async function plugIn(page: Page, transport: 'internal' | 'usb' = 'internal') {
  const debug = await page.context().newCDPSession(page)
  await debug.send('WebAuthn.enable')
  const { authenticatorId } = await debug.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      ...{ protocol: 'ctap2', transport, hasResidentKey: true, hasUserVerification: true },
      ...{ isUserVerified: true, automaticPresenceSimulation: true },
    },
  })
  return {
    confirms: (isUserVerified: boolean) => debug.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }),
    unplug: () => debug.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId }),
    credentials: async () => (await debug.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
  }
}

const consoleAt = (path: string): string => `${atLocalhost(api.url)}/console/${orgId}${path}`

async function newPerson() {
  return api.person([{ orgId, role: 'member' }])
}

/** At http://localhost, signed in by a link. */
async function openAccount(userId = owner.userId): Promise<Page> {
  const page = await newPage()
  await page.goto(atLocalhost(await signInLink(userId)))
  await page.waitForURL(consoleAt(''))
  await page.getByRole('button', { name: /^Account/ }).click()
  await page.getByRole('menuitem', { name: 'Your account' }).click()
  await page.waitForURL(consoleAt('/account'))
  return page
}

const passkeys = (page: Page) => page.getByRole('region', { name: 'Passkeys' })
const dialog = (page: Page) => page.getByRole('dialog')
const signedOut = (page: Page) => page.getByRole('heading', { name: 'Sign in to Keyhook' })

async function add(page: Page, name: string): Promise<void> {
  await passkeys(page).getByRole('button', { name: 'Add a passkey' }).click()
  await dialog(page).getByLabel('Name').fill(name)
  await dialog(page).getByRole('button', { name: 'Add passkey' }).click()
}

async function signOut(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Account/ }).click()
  await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click()
  await signedOut(page).waitFor()
}

const signIn = (page: Page) => page.getByRole('button', { name: 'Sign in with a passkey' }).click()

inBrowser('a passkey', () => {
  test('is added in the account, signs in to the page that somebody wanted, and is renamed and removed', async () => {
    const page = await openAccount((await newPerson()).userId)
    const key = await plugIn(page)
    await passkeys(page).getByRole('heading', { name: 'No passkeys yet' }).waitFor()
    await passkeys(page).getByRole('button', { name: 'Add a passkey' }).click()
    // What it is called if nobody says otherwise.
    expect(await dialog(page).getByLabel('Name').inputValue()).toBe('Chrome on Linux')
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    await add(page, 'Laptop')
    await passkeys(page).getByText('Laptop').waitFor()
    expect((await key.credentials()).map(({ rpId }) => rpId)).toEqual(['localhost'])

    const toast = page.getByText('You can sign in with this passkey now')
    await toast.waitFor()
    await signOut(page)
    await toast.waitFor({ state: 'detached', timeout: 1_000 })
    await page.goto(consoleAt('/webhooks'))
    await signIn(page)
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor()
    expect(page.url()).toBe(consoleAt('/webhooks'))
    await page.goto(consoleAt('/account'))
    await page.getByText('with a passkey').waitFor()

    await passkeys(page).getByRole('button', { name: 'Rename Laptop' }).click()
    await dialog(page).getByLabel('Name').fill('Old laptop')
    await dialog(page).getByRole('button', { name: 'Rename' }).click()
    await passkeys(page).getByText('Old laptop').waitFor()
    await passkeys(page).getByRole('button', { name: 'Remove Old laptop' }).click()
    await dialog(page).getByRole('button', { name: 'Remove passkey' }).click()
    await passkeys(page).getByRole('heading', { name: 'No passkeys yet' }).waitFor()

    await signOut(page)
    await signIn(page)
    await page.getByRole('alert').getByText('This passkey was not accepted: it was removed').waitFor()
    await signedOut(page).waitFor()
  })

  test('is one of several: each signs in, and one device has one', async () => {
    const page = await openAccount((await newPerson()).userId)
    const laptop = await plugIn(page)
    await add(page, 'Laptop')
    await passkeys(page).getByText('Laptop').waitFor()
    await add(page, 'Laptop again')
    await dialog(page).getByRole('alert').getByText('This device has a passkey of yours already.').waitFor()
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    await laptop.unplug()
    await plugIn(page, 'usb')
    await add(page, 'Security key')
    await passkeys(page).getByText('Security key').waitFor()
    expect(await passkeys(page).getByRole('row').count()).toBe(3)

    await signOut(page)
    await signIn(page)
    await page.waitForURL(consoleAt('/account'))
    await passkeys(page).getByText('Security key').waitFor()
  })

  test('is not added or used when the person cancels, and the page says so', async () => {
    const page = await openAccount((await newPerson()).userId)
    const key = await plugIn(page)
    await key.confirms(false)
    await add(page, 'Laptop')
    await dialog(page).getByRole('alert').getByText('the prompt was cancelled').waitFor()
    await key.confirms(true)
    await dialog(page).getByRole('button', { name: 'Add passkey' }).click()
    await passkeys(page).getByText('Laptop').waitFor()

    await signOut(page)
    await key.confirms(false)
    await signIn(page)
    await page.getByRole('alert').getByText('the prompt was cancelled').waitFor()
    await key.confirms(true)
    await signIn(page)
    await passkeys(page).getByText('Laptop').waitFor()
    expect(await key.credentials()).toHaveLength(1)
  })

  test('is offered once to somebody who came by a link, and not again', async () => {
    const { userId } = await newPerson()
    const page = await newPage()
    await page.goto(atLocalhost(await signInLink(userId)))
    const offer = page.getByRole('complementary', { name: 'Add a passkey' })
    await offer.getByRole('button', { name: 'Not now' }).click()
    await offer.waitFor({ state: 'detached' })
    await page.reload()
    await page.getByRole('heading', { name: 'Acme', level: 1 }).waitFor()
    expect(await offer.count()).toBe(0)

    await page.goto(atLocalhost(await signInLink(userId)))
    await plugIn(page)
    await offer.getByRole('button', { name: 'Add a passkey' }).click()
    await dialog(page).getByRole('button', { name: 'Add passkey' }).click()
    await offer.waitFor({ state: 'detached' })
    await page.goto(atLocalhost(await signInLink(userId)))
    await page.getByRole('heading', { name: 'Acme', level: 1 }).waitFor()
    expect(await offer.count()).toBe(0)
    expect(await page.evaluate('[localStorage.length, sessionStorage.length]')).toEqual([0, 0])
  })

  test('is offered to somebody who joined by an invitation, and signs in who has an invitation to another organization', async () => {
    const invite = async (name: string) => {
      const other = await api.organization(name)
      const { token } = await api.person([{ orgId: other, role: 'owner' }])
      const reply = await fetch(`${api.url}/platform/v1/organizations/${other}/invitations`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ email: 'new@example.com', role: 'member' }),
      })
      return new URL(((await reply.json()) as { link: string }).link, atLocalhost(api.url)).href
    }
    const page = await newPage()
    await plugIn(page)
    await page.goto(await invite('First'))
    await page.getByRole('button', { name: 'Accept invitation' }).click()
    const offer = page.getByRole('complementary', { name: 'Add a passkey' })
    await offer.getByRole('button', { name: 'Add a passkey' }).click()
    await dialog(page).getByRole('button', { name: 'Add passkey' }).click()
    await offer.waitFor({ state: 'detached' })
    await signOut(page)

    await page.goto(await invite('Second'))
    await signIn(page)
    await page.getByText('You join as new@example.com.').waitFor()
    await page.getByRole('button', { name: 'Accept invitation' }).click()
    await page.getByRole('heading', { name: 'Second', level: 1 }).waitFor()
    expect(await api.db`select 1 from keyhook.users where email = 'new@example.com'`).toHaveLength(1)
  })

  test('needs HTTPS or localhost: elsewhere the pages say what is missing, and lead to where it is not', async () => {
    const page = await newPage()
    await page.goto(`${api.url}/console/`)
    const missing = `Passkeys need HTTPS with a domain name, or http://localhost; this page is open at ${api.url}.`
    await page.getByText(missing).waitFor()
    expect(await page.getByRole('button', { name: 'Sign in with a passkey' }).count()).toBe(0)
    await page.goto(await signInLink(owner.userId))
    await page.waitForURL(`${api.url}/console/${orgId}`)
    await page.goto(`${api.url}/console/account`)
    await passkeys(page).getByText(missing).waitFor()
    expect(await page.getByRole('button', { name: 'Add a passkey' }).count()).toBe(0)
    await page.getByRole('link', { name: `Open ${atLocalhost(api.url)}/console/` }).click()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor()
  })

  test('is neither shown nor offered where an OpenID issuer decides who signs in', async () => {
    const environment = { KEYHOOK_OIDC_ISSUER: 'http://127.0.0.1:1', KEYHOOK_OIDC_AUDIENCE: 'x' }
    const other = await startApi(environment, undefined, await builtConsole())
    try {
      const org = await other.organization()
      const { userId } = await other.person([{ orgId: org, role: 'owner' }])
      const page = await newPage()
      await page.goto(`${atLocalhost(other.url)}/console/`)
      await page.getByText('npx keyhook console link').waitFor()
      expect(await page.getByText(/passkey/i).count()).toBe(0)
      await page.goto(`${atLocalhost(other.url)}/console/sign-in#${await linkFor(other, userId)}`)
      await page.getByRole('heading', { name: 'Acme', level: 1 }).waitFor()
      await page.goto(`${atLocalhost(other.url)}/console/account`)
      await page.getByRole('region', { name: 'Sessions' }).getByText('This session').waitFor()
      expect(await page.getByText(/passkeys/i).count()).toBe(0)
    } finally {
      await other.close()
    }
  })
})

inBrowser('the list of sessions', () => {
  const rows = (page: Page) => page.getByRole('region', { name: 'Sessions' }).getByRole('row')

  test('shows this one and others, which are signed out one by one or together', async () => {
    const { userId } = await newPerson()
    const others = [await openAccount(userId), await openAccount(userId), await openAccount(userId)]
    const page = await openAccount(userId)
    await expect.poll(() => rows(page).count()).toBe(5)
    expect(await rows(page).filter({ hasText: 'This session' }).count()).toBe(1)
    expect(await rows(page).nth(1).textContent()).toMatch(/Chrome on Linux.*127\.0\.0\.1.*with a link/)
    await rows(page).filter({ hasNotText: 'This session' }).nth(1).getByRole('button', { name: 'Sign out' }).click()
    await expect.poll(() => rows(page).count()).toBe(4)
    await page.getByRole('button', { name: 'Sign out all others' }).click()
    await dialog(page).getByRole('button', { name: 'Sign out all others' }).click()
    await expect.poll(() => rows(page).count()).toBe(2)
    for (const other of others) {
      await other.reload()
      await signedOut(other).waitFor()
    }
    await page.getByRole('button', { name: 'Sign out Chrome on Linux, this session' }).click()
    await signedOut(page).waitFor()
  })

  test('of the operator has no passkeys', async () => {
    const page = await newPage()
    await page.goto(atLocalhost(await signInLink(null)))
    await page.waitForURL('**/operator')
    await page.getByRole('button', { name: /^Account/ }).click()
    await page.getByRole('menuitem', { name: 'Your account' }).click()
    await page.getByText('The operator signs in by a link only.').waitFor()
    await rows(page).filter({ hasText: 'This session' }).waitFor()
    expect(await passkeys(page).count()).toBe(0)
  })
})
