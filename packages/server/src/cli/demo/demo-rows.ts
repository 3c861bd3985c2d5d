import type { Database } from '@keyhook/client'
import { connect } from '../../db/database.ts'

const rows = 1_000

type Login = { database: Database; password: string }

async function query(login: Login, text: string): Promise<number> {
  const { host, port, user, database: name } = login.database
  const target = { host: host!, port: port!, user, password: login.password, database: name }
  const db = connect(target, { name: 'keyhook demo', connectionsMax: 1 })
  try {
    const [row] = await db.unsafe<{ count: string }[]>(text)
    return Number(row?.count ?? 0)
  } finally {
    await db.end()
  }
}

/** Something worth a backup. Returns the number of rows. */
export async function fillDatabase(login: Login): Promise<number> {
  await query(
    login,
    'create table orders (id bigint primary key, customer text not null, amount_cents bigint not null)',
  )
  await query(login, `insert into orders select n, 'customer ' || n % 50, n * 25 from generate_series(1, ${rows}) n`)
  return countRows(login)
}

export const countRows = (login: Login): Promise<number> => query(login, 'select count(*) from orders')
