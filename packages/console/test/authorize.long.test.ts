import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { api, inBrowser, newPage, owner, signInLink } from './support/console-test.ts'

/** Listens like the terminal of `keyhook login --browser`. */
async function startTerminal() {
  const visits: URL[] = []
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/?')) visits.push(new URL(request.url, 'http://127.0.0.1'))
    response.setHeader('content-type', 'text/plain').end('Back to the terminal')
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const verifier = randomBytes(32).toString('base64url')
  const query = new URLSearchParams({
    port: String((server.address() as AddressInfo).port),
    challenge: createHash('sha256').update(verifier).digest('base64url'),
    state: randomBytes(16).toString('base64url'),
    machine: '<b>laptop</b>',
  })
  return { visits, verifier, query, address: `${api.url}/console/authorize?${query}` }
}

inBrowser('logging in a terminal', () => {
  test('is confirmed by the person who is signed in, and the browser brings the code to the terminal', async () => {
    const { visits, verifier, query, address } = await startTerminal()
    const page = await newPage()
    await page.goto(await signInLink(owner.userId))
    await page.waitForURL(/\/console\/org_/)
    await page.goto(address)
    await page.getByRole('heading', { name: 'Log in a terminal?' }).waitFor()
    const text = await page.getByRole('main').innerText()
    expect(text).toContain('blaptopb')
    expect(text).toContain(new URL(api.url).host)
    // Looking is not confirming.
    expect(visits).toEqual([])
    await page.getByRole('button', { name: 'Allow' }).click()
    await page.getByText('Back to the terminal').waitFor()
    expect(visits[0]!.searchParams.get('state')).toBe(query.get('state'))
    const reply = await fetch(`${api.url}/console/authorizations/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: visits[0]!.searchParams.get('code'), verifier }),
    })
    expect(reply.status).toBe(200)
  })

  test('is cancelled there, and the terminal is told', async () => {
    const { visits, query, address } = await startTerminal()
    const page = await newPage()
    await page.goto(await signInLink(owner.userId))
    await page.waitForURL(/\/console\/org_/)
    await page.goto(address)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByText('Back to the terminal').waitFor()
    expect(visits.map(({ search }) => search)).toEqual([`?error=access_denied&state=${query.get('state')}`])
    // A wrong port leads nowhere else: only to the console.
    await page.goto(address.replace(/port=\d+/, 'port=80@evil.example'))
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.waitForURL(/\/console\/org_/)
  })

  test('asks whoever is not signed in to sign in first', async () => {
    const { visits, address } = await startTerminal()
    const page = await newPage()
    await page.goto(address)
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    expect(visits).toEqual([])
  })
})
