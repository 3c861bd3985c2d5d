import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@keyhook/client'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { createPausedBackups } from '../../server/test/databases/support/paused-backups.ts'
import { startNode } from '../../server/test/databases/support/platform.ts'
import { customerSqlForTest } from '../../server/test/kit/customer-sql.ts'
import { api, consoleUrl, inBrowser, member, openAs, orgId, owner } from './support/console-test.ts'
import { addDatabase, addStorage } from './support/database-rows.ts'

/** PostgreSQL servers are started here, which takes long on a busy machine. */
const patient = { timeout: 60_000 }

const dialogOf = (page: Page) => page.getByRole('dialog')

/** Fills in the dialog, and returns what it shows once. */
async function nameAndRead(page: Page, name: string, action: string): Promise<{ url: string; password: string }> {
  const dialog = dialogOf(page)
  await dialog.getByLabel('Name').fill(name)
  await dialog.getByRole('button', { name: action }).click()
  const password = await dialog.getByLabel('Password', { exact: true }).inputValue()
  await dialog.getByText('It will not be shown again').waitFor()
  const field = dialog.getByLabel('Connection string', { exact: true })
  await field.waitFor(patient)
  return { url: await field.inputValue(), password }
}

/** Saves the certificate, and runs the code that the dialog shows for Node. */
async function runShown(page: Page): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kh-shown-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const downloading = page.waitForEvent('download')
  await dialogOf(page).getByRole('link', { name: 'database-ca.pem' }).click()
  await (await downloading).saveAs(join(folder, 'database-ca.pem'))
  await dialogOf(page).getByRole('tab', { name: 'Node' }).click()
  const shown = await dialogOf(page).getByRole('tabpanel', { name: 'Node' }).locator('code').textContent()
  const use = "console.log((await pool.query('select 6 * 7 as answer')).rows[0].answer)\nawait pool.end()\n"
  await writeFile(join(folder, 'shown.mjs'), `${shown}\n${use}`)
  await symlink(join(import.meta.dirname, '../../../node_modules'), join(folder, 'node_modules'))
  return (await promisify(execFile)(process.execPath, ['shown.mjs'], { cwd: folder })).stdout
}

inBrowser('databases', () => {
  test('a database is created, backed up, restored and deleted by its name', { timeout: 240_000 }, async () => {
    const backups = createPausedBackups()
    // Without backups of its own accord, so that there is one in the list.
    await startNode(api, { around: backups.around, environment: { KEYHOOK_POINT_IN_TIME_RESTORE: 'off' } })
    const page = await openAs(owner, '/databases')
    await page.getByRole('heading', { name: 'No databases yet' }).waitFor()
    await page.getByRole('button', { name: 'Create database' }).first().click()
    const dialog = dialogOf(page)
    await dialog.getByRole('button', { name: 'Create database' }).click()
    await dialog.getByText('Give the database a name.').waitFor()

    const { url, password } = await nameAndRead(page, 'orders', 'Create database')
    expect(new URL(url).password).toBe(password)
    await dialog.getByText(`psql '${url}`).waitFor()
    expect(await runShown(page)).toBe('42\n')
    await dialog.getByRole('tab', { name: 'Django' }).click()
    await dialog.getByText(`"PORT": "${new URL(url).port}"`).waitFor()
    const sql = customerSqlForTest(url, password)
    await sql`create table items as select generate_series(1, 1000) as id`
    await dialog.getByRole('button', { name: 'Done' }).click()
    expect(await page.content()).not.toContain(password)

    await page.getByRole('row', { name: /orders Available/ }).waitFor()
    await page.getByRole('link', { name: 'orders' }).click()
    await page.getByRole('heading', { name: 'orders', level: 1 }).waitFor()
    const state = page.getByRole('region', { name: 'State' })
    await expect.poll(() => state.textContent(), patient).toMatch(/Size[\d.]+ MiB.*Connections\d+ of \d+/)
    expect(await page.content()).not.toContain(password)
    const week = page.getByRole('region', { name: 'Last 7 days' })
    await week.getByRole('table', { name: 'Size' }).getByRole('cell', { name: /MiB/ }).last().waitFor(patient)
    await week.getByRole('table', { name: 'Size' }).getByRole('cell', { name: 'not measured' }).first().waitFor()
    // What ends the database is not beside what is used every day.
    expect(await page.locator('main section.card').last().getAttribute('aria-label')).toBe('Delete')

    backups.pause()
    await page.getByRole('button', { name: 'Back up now' }).click()
    const list = page.getByRole('table', { name: 'Backups' })
    const progress = list.getByRole('progressbar', { name: 'Progress of the backup' })
    await progress.waitFor(patient)
    await expect.poll(() => list.textContent(), patient).toMatch(/Running.* of [\d.]+ MiB/)
    backups.resume()
    await list.getByText('Completed').waitFor(patient)

    await list.getByRole('button', { name: 'Actions of this backup' }).click()
    await page.getByRole('menuitem', { name: 'Restore into a new database' }).click()
    expect(await dialog.getByLabel('Name').inputValue()).toBe('orders restored')
    const restored = await nameAndRead(page, 'orders copy', 'Restore')
    const rows = await customerSqlForTest(restored.url, restored.password)`select count(*)::int from items`
    expect(rows).toEqual([{ count: 1_000 }])
    await dialog.getByRole('button', { name: 'Done' }).click()

    await page.getByRole('heading', { name: 'orders copy', level: 1 }).waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    const confirm = dialog.getByRole('button', { name: 'Delete database' })
    await dialog.getByLabel('Type orders copy to confirm').fill('orders')
    expect(await confirm.isDisabled()).toBe(true)
    await dialog.getByLabel('Type orders copy to confirm').fill('orders copy')
    await confirm.click()
    await page.waitForURL(consoleUrl('/databases'))
    await page.getByRole('row', { name: /orders copy/ }).waitFor({ state: 'detached', ...patient })
    await page.getByRole('row', { name: /orders Available/ }).waitFor()
  })

  test('a schedule is changed, and a wrong number is refused at its field', async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const { id } = await client.databases.create({ name: 'nightly' })
    const page = await openAs(owner, `/databases/${id}`)
    await page.getByText('No backups are made without being asked for.').waitFor()
    await page.getByRole('button', { name: 'Change schedule' }).click()
    const dialog = dialogOf(page)
    await dialog.getByLabel('How often').selectOption('Every day')
    await dialog.getByLabel('Backups to keep').fill('0')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('Enter a whole number').waitFor()
    await dialog.getByLabel('Backups to keep').fill('14')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Every day. The newest 14 are kept, which is about 14 days.').waitFor()
    expect(await client.backups.schedule(id)).toMatchObject({ every_hours: 24, keep: 14 })
  })

  test('a database near its storage limit says so, with the limit and what to do', async () => {
    const nearly = await addDatabase('nearly full', 'available')
    await addStorage(nearly, 'read_only', 95 * 1024 ** 2)
    const over = await addDatabase('full', 'available')
    await addStorage(over, 'stopped', 120 * 1024 ** 2)
    const page = await openAs(owner, `/databases/${nearly}`)
    await page.getByText('The database is read-only: it has nearly used its storage limit of 100 MiB.').waitFor()
    const state = page.getByRole('region', { name: 'State' })
    await state.getByText('95 MiB of 100 MiB on disk').waitFor()
    expect(await state.getByRole('progressbar').getAttribute('value')).toBe(String(95 * 1024 ** 2))
    await page.goto(consoleUrl('/databases'))
    await page.getByRole('row', { name: /nearly full Read-only/ }).waitFor()
    await page
      .getByRole('row', { name: /^full Stopped/ })
      .getByRole('link')
      .click()
    await page.getByText('Ask the operator for a higher limit.').waitFor()
  })

  test('a member reads them, and is offered no change', async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const { id } = await client.databases.create({ name: 'shared' })
    const page = await openAs(member, `/databases/${id}`)
    await page.getByRole('heading', { name: 'Backups', exact: true }).waitFor()
    await page.getByText('No backups are made without being asked for.').waitFor()
    expect(await page.getByRole('button', { name: /Delete|Back up|Change schedule|Actions/ }).count()).toBe(0)
    await page.goto(consoleUrl('/databases#create'))
    await page.getByRole('row', { name: /shared/ }).waitFor()
    expect(await dialogOf(page).count()).toBe(0)
  })
})
