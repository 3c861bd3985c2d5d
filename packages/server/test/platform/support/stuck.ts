import type { Database } from '../../../src/db/database.ts'
import { until } from './customer.ts'

/**
 * Plain SQL of an ordinary user that nobody can cancel: it sleeps in the middle of splitting a page of an index, where
 * PostgreSQL holds off every interrupt. A checkpoint waits for that page, and so does an orderly end of the server.
 * For a client with two connections at least: the second sees that the first is there.
 */
export async function getStuck(sql: Database): Promise<void> {
  const session = await sql.reserve()
  await session.unsafe(`
    create function slow_difference(float8, float8) returns float8 language plpgsql immutable as $$
      begin
        if current_setting('stuck.sleeps', true) = '1' then perform pg_sleep(100000); end if;
        return $1 - $2;
      end $$;
    create type slow_range as range (subtype = float8, subtype_diff = slow_difference);
    create table stuck (r slow_range);
    create index on stuck using gist (r);
    set stuck.sleeps = '1'`)
  // It ends with its server, and not before.
  session`insert into stuck select slow_range(random(), 1 + random()) from generate_series(1, 2000)`.catch(() => {})
  await until(
    () => sql`select 1 from pg_stat_activity where wait_event = 'PgSleep'`,
    (found) => found.length === 1,
  )
}
