import type { Database } from '../../../src/db/database.ts'
import { until } from '../../kit/until.ts'

/*
 * The same transactions as pgbench, without needing it: each moves an amount between an account, a teller and a branch, and
 * records it. In a consistent state the three sums and the history are equal.
 */
export async function prepareLedger(sql: Database): Promise<void> {
  await sql`create table branches (id int primary key, balance bigint not null)`
  await sql`create table tellers (id int primary key, balance bigint not null)`
  await sql`create table accounts (id int primary key, balance bigint not null, filler text not null)`
  await sql`create table history (n bigserial primary key, delta int not null, at timestamptz not null default clock_timestamp())`
  await sql`create index history_at on history (at)`
  await sql`insert into branches select g, 0 from generate_series(1, 5) g`
  await sql`insert into tellers select g, 0 from generate_series(1, 50) g`
  await sql`insert into accounts select g, 0, repeat(md5(g::text), 5) from generate_series(1, 20000) g`
}

export type Load = {
  committed(): number
  /** The rows of the history whose commits were acknowledged by now. */
  acknowledged(): number[]
  stop(): Promise<number>
}

export function startLoad(sql: Database, clients: number): Load {
  let running = true
  const rows: number[] = []
  async function work(): Promise<void> {
    while (running) {
      const delta = Math.floor(Math.random() * 2_000) - 1_000
      const pick = (max: number) => 1 + Math.floor(Math.random() * max)
      const row = await sql.begin(async (tx) => {
        await tx`update accounts set balance = balance + ${delta}, filler = md5(random()::text) || filler where id = ${pick(20_000)}`
        await tx`update tellers set balance = balance + ${delta} where id = ${pick(50)}`
        await tx`update branches set balance = balance + ${delta} where id = ${pick(5)}`
        const [written] = await tx<[{ n: number }]>`insert into history (delta) values (${delta}) returning n::int`
        return written.n
      })
      rows.push(row)
    }
  }
  const workers = Array.from({ length: clients }, work)
  return {
    committed: () => rows.length,
    acknowledged: () => [...rows],
    async stop() {
      running = false
      await Promise.all(workers)
      return rows.length
    },
  }
}

export async function untilCommitted(load: Load, count: number): Promise<void> {
  await until(() => load.committed() >= count)
}

export async function ledgerSums(sql: Database) {
  const [row] = await sql<[{ accounts: string; tellers: string; branches: string; history: string; rows: number }]>`
    select (select sum(balance) from accounts)::text as accounts, (select sum(balance) from tellers)::text as tellers,
      (select sum(balance) from branches)::text as branches, (select coalesce(sum(delta), 0) from history)::text as history,
      (select count(*)::int from history) as rows`
  return row
}
