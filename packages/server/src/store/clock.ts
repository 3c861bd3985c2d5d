import type { Executor } from '../db/database.ts'

/** PostgreSQL's clock, for times that all nodes have to agree on: their own clocks may be wrong. */
export const databaseNowMs = async (db: Executor): Promise<number> => {
  const [row] = await db<{ ms: string }[]>`select trunc(extract(epoch from clock_timestamp()) * 1000)::bigint as ms`
  return Number(row!.ms)
}
