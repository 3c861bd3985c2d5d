import type { Database } from '../../../src/db/database.ts'
import { until } from '../../kit/until.ts'

/**
 * Starts SQL of an ordinary user that cannot be cancelled: it sleeps while an index page is split, where PostgreSQL handles no
 * interrupts. A checkpoint and a fast shutdown wait for that page. The client needs two connections.
 */
export async function blockDatabase(sql: Database): Promise<void> {
  const session = await sql.reserve()
  await session.unsafe(`
    create function slow_difference(float8, float8) returns float8 language plpgsql immutable as $$
      begin
        if current_setting('blocked.sleeps', true) = '1' then perform pg_sleep(100000); end if;
        return $1 - $2;
      end $$;
    create type slow_range as range (subtype = float8, subtype_diff = slow_difference);
    create table blocked (r slow_range);
    create index on blocked using gist (r);
    set blocked.sleeps = '1'`)
  // It ends with its server.
  session`insert into blocked select slow_range(random(), 1 + random()) from generate_series(1, 2000)`.catch(() => {})
  await until(
    () => sql`select 1 from pg_stat_activity where wait_event = 'PgSleep'`,
    (found) => found.length === 1,
  )
}
