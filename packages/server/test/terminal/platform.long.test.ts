import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { portRange } from '../databases/support/platform.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { keyhook, scratchDirectory, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { openTerminal } from './support/terminal.ts'

const hasPsql = (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'psql')))

type Database = { id: string; name: string; status: string; password: string; connection_string: string }

test('a database is created, backed up, restored, connected to and deleted from the terminal', {
  timeout: 120_000,
}, async () => {
  const dataDir = join(await scratchDirectory(), 'data')
  onTestFinished(() => removeDataDirectory(dataDir))
  const { ready } = await serve({ KEYHOOK_DATA_DIR: dataDir })
  const issued = await keyhook(['token', 'issue', '--user', ready.owner_id], { KEYHOOK_DATA_DIR: dataDir })
  const terminal = await openTerminal({ KEYHOOK_URL: ready.url, KEYHOOK_TOKEN: issued.stdout.trim() })

  const orders = await terminal.json<Database>('databases', 'create', '--name', 'orders', '--wait')
  expect(orders).toMatchObject({ name: 'orders', status: 'available', password: expect.stringMatching(/^\w{32}$/) })
  expect(await terminal.text('databases', 'list')).toContain(orders.id)
  expect(await terminal.text('databases', 'show', orders.id)).toContain(orders.connection_string)
  expect(await terminal.text('databases', 'connect', orders.id, '--print')).toBe(`${orders.connection_string}\n`)
  if (hasPsql) {
    const connect = async (PGPASSWORD: string) => {
      const { env } = terminal
      return (await keyhook(['databases', 'connect', orders.id, '--command', 'select 41 + 1'], { ...env, PGPASSWORD }))
        .stdout
    }
    expect(await connect(orders.password)).toContain('42')
    expect(await connect('wrong')).not.toContain('42')
  }

  const backup = await terminal.json<{ id: string; status: string }>(
    'backups',
    'create',
    '--database',
    orders.id,
    '--wait',
  )
  expect(backup.status).toBe('completed')
  expect(await terminal.text('backups', 'list', '--database', orders.id)).toContain(backup.id)
  const restored = await terminal.json<{ database: Database }>(
    'backups',
    'restore',
    backup.id,
    '--name',
    'copy',
    '--wait',
  )
  expect(restored.database).toMatchObject({ name: 'copy', status: 'available' })

  expect(await terminal.json('backups', 'delete', backup.id, '--yes')).toMatchObject({ id: backup.id })
  expect(await terminal.json('databases', 'delete', orders.id, '--yes')).toMatchObject({ status: 'deleting' })
  expect(await terminal.json('invoices', 'list')).toEqual([])
})

test('with the settings of a fresh start, a new database can be restored to a time soon after its creation', {
  timeout: 240_000,
}, async () => {
  const dataDir = join(await scratchDirectory(), 'data')
  onTestFinished(() => removeDataDirectory(dataDir))
  const { ready } = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_DATABASES_PORTS: portRange() })
  const issued = await keyhook(['token', 'issue', '--user', ready.owner_id], { KEYHOOK_DATA_DIR: dataDir })
  const terminal = await openTerminal({ KEYHOOK_URL: ready.url, KEYHOOK_TOKEN: issued.stdout.trim() })
  const orders = await terminal.json<Database>('databases', 'create', '--name', 'orders', '--wait')
  const sql = customerSql(orders.connection_string, orders.password)
  onTestFinished(() => sql.end({ timeout: 1 }))
  type Restorable = { recovery_window: { from: string; to: string } | null }
  const shown = () => terminal.json<Restorable>('databases', 'show', orders.id)
  const { recovery_window: window } = await until(shown, (one) => one.recovery_window !== null)
  await sql`create table t as select 1 as n`
  const [{ to }] = await sql<[{ to: Date }]>`select clock_timestamp() as to`
  await sql`drop table t`
  const isKept = ({ recovery_window: range }: Restorable) => new Date(range!.to) >= to
  await until(shown, isKept)
  expect(new Date(window!.from).getTime()).toBeLessThan(to.getTime())
  const args = ['--to', to.toISOString(), '--name', 'before', '--wait']
  const { database } = await terminal.json<{ database: Database }>('databases', 'restore', orders.id, ...args)
  const then = customerSql(database.connection_string, database.password)
  onTestFinished(() => then.end({ timeout: 1 }))
  expect(await then`select n from t`).toEqual([{ n: 1 }])
})
