import { type Database, isMissingTable } from '../../db/database.ts'

export type JobFigures = { queue: string; state: string; jobs: number; due_seconds: number }

/**
 * Jobs without an outcome, and failed ones, by queue and state, and for how long the oldest has been due. Queues of nodes count as
 * one, so that the number of labels does not grow with the nodes. pg-boss deletes finished jobs after an hour, so the table is small.
 */
export const readJobFigures = async (db: Database): Promise<readonly JobFigures[]> => {
  try {
    return await db<JobFigures[]>`
      select queue, state, count(*)::int as jobs, max(due_seconds)::float8 as due_seconds from (
        select regexp_replace(name, '^node-[^-]*', 'node') as queue, state::text as state, case
          when state < 'active' then greatest(0, extract(epoch from now() - start_after)) else 0
        end as due_seconds
        from keyhook_jobs.job
        where (state < 'completed' or state = 'failed') and left(name, 8) <> '__pgboss'
        limit 100000
      ) j group by queue, state`
  } catch (error) {
    // The first process that works on jobs creates it.
    if (isMissingTable(error)) return []
    throw error
  }
}
