import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { startNode } from '../../server/test/databases/support/platform.ts'
import { customerSqlForTest } from '../../server/test/kit/customer-sql.ts'
import { api, inBrowser, openAs, orgId, owner } from './support/console-test.ts'

/** PostgreSQL servers are started here, which takes long on a busy machine. */
const patient = { timeout: 100_000 }

inBrowser('a database', () => {
  test('is restored to a time of its range, and a wrong time is refused at its field', {
    timeout: 300_000,
  }, async () => {
    await startNode(api, { environment: { KEYHOOK_POINT_IN_TIME_RESTORE: 'on', KEYHOOK_WAL_EVERY_SECONDS: '1' } })
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const { id, password } = await client.databases.create({ name: 'history' })
    const page = await openAs(owner, `/databases/${id}`)
    const backups = page.getByRole('region', { name: 'Backups' })
    await backups.getByText('This database cannot be restored to a time yet.').waitFor()
    const open = backups.getByRole('button', { name: 'Restore to a time' })
    await open.waitFor(patient)
    await backups.getByText(/Any time from .+ to .+/).waitFor()
    const sql = customerSqlForTest((await client.databases.get(id)).connection_string!, password)
    await sql`create table items as select generate_series(1, 1000) as id`
    const createdMs = Date.now()
    // Times in the field are whole seconds.
    const kept = async () => Date.parse((await client.databases.get(id)).recovery_window!.to)
    await expect.poll(kept, patient).toBeGreaterThan(createdMs + 1_000)
    await page.reload()

    await open.click()
    const dialog = page.getByRole('dialog')
    const restore = dialog.getByRole('button', { name: 'Restore' })
    const time = dialog.getByLabel('Time')
    const chosen = await time.inputValue()
    expect([await time.getAttribute('max'), new Date(chosen).getTime() > createdMs]).toEqual([chosen, true])
    for (const wrong of ['', '2020-01-01T00:00:00']) {
      await time.fill(wrong)
      await restore.click()
      await dialog.getByText('Choose a time in the range below.').waitFor()
    }
    expect(await time.getAttribute('aria-invalid')).toBe('true')

    // Meanwhile the range is another one, which only the server knows: it refuses the time, at the field.
    const moveBackups = (days: number) => api.db`
      update keyhook.backups set stopped_at = stopped_at + ${days}::int * interval '1 day'
      where org_id = ${orgId} and database_id = ${id}`
    await moveBackups(1)
    await time.fill(chosen)
    await restore.click()
    await dialog.getByText(/cannot be restored to a time|not among the times/).waitFor()
    await moveBackups(-1)

    await dialog.getByLabel('Name').fill('history at noon')
    await restore.click()
    const shown = await dialog.getByLabel('Password', { exact: true }).inputValue()
    await dialog.getByLabel('Connection string', { exact: true }).waitFor(patient)
    const url = await dialog.getByLabel('Connection string', { exact: true }).inputValue()
    expect(await customerSqlForTest(url, shown)`select count(*)::int from items`).toEqual([{ count: 1_000 }])
    const [made] = await client.restores.list().toArray()
    expect(Date.parse(made!.to!)).toBe(new Date(chosen).getTime())
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('heading', { name: 'history at noon', level: 1 }).waitFor()
  })
})
