import { expect, test } from 'vitest'
import { databaseTables, organizationTables, userTables } from '../../src/deletion/tables.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()

const tablesWith = async (columns: readonly string[]): Promise<string[]> => {
  const rows = await api.db<{ name: string }[]>`
    select distinct c.table_name as name
    from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
    where c.table_schema = 'keyhook' and t.table_type = 'BASE TABLE' and c.column_name = any(${[...columns]}::text[])
      -- Partitions are erased with their table.
      and not exists (
        select from pg_inherits i where i.inhrelid = format('%I.%I', c.table_schema, c.table_name)::regclass
      )
    order by 1`
  return rows.map(({ name }) => name)
}

test('every table with rows of an organization is erased with it', async () => {
  const erased = [...organizationTables.map(({ table }) => table), ...databaseTables]
  const columns = ['org_id', 'organization_id', 'lane_id', 'webhook_id', 'database_id', 'key_id', 'subject']
  // The subject of a user is that of an OpenID issuer, the key of the authority a master key, and counts of mails have a hash and
  // last for an hour.
  const others = ['users', 'certificate_authority', 'mail_counts']
  expect((await tablesWith(columns)).filter((name) => ![...erased, ...others].includes(name))).toEqual([])
})

test('every table with rows of a user is erased with the user, or keeps the bare id', async () => {
  const erased = userTables.map(({ table }) => table)
  // The audit log of an organization names the user by the id; addresses and names in it are erased.
  expect((await tablesWith(['user_id', 'email'])).filter((name) => !erased.includes(name))).toEqual([
    'audit_entries',
    'users',
  ])
})
