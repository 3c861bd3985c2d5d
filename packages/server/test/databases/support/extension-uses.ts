import type { offeredExtensions } from '../../../src/databases/drivers/local/extensions.ts'

/** A statement with each offered extension, and what it answers. */
export const extensionUses: Record<(typeof offeredExtensions)[number], [statement: string, answer: unknown]> = {
  btree_gin: ['create table gin_t as select 1 as n; create index on gin_t using gin (n); select n as v from gin_t', 1],
  btree_gist: [
    'create table gist_t (n int, exclude using gist (n with =)); insert into gist_t values (1); select n as v from gist_t',
    1,
  ],
  citext: ["select 'A'::citext = 'a'::citext as v", true],
  cube: ["select cube_dim('(1,2,3)'::cube) as v", 3],
  dict_int: ["select array_to_string(ts_lexize('intdict', '12345678'), '') as v", '123456'],
  fuzzystrmatch: ["select levenshtein('kitten', 'sitting') as v", 3],
  hstore: ["select ('a=>1'::hstore -> 'a') as v", '1'],
  intarray: ["select sort('{3,1,2}'::int[])::text as v", '{1,2,3}'],
  lo: ['select pg_typeof(null::lo)::text as v', 'lo'],
  ltree: ["select 'a.b.c'::ltree <@ 'a'::ltree as v", true],
  pg_trgm: ["select similarity('word', 'word')::int as v", 1],
  pgcrypto: ["select encode(digest('a', 'sha256'), 'hex') like 'ca978112%' as v", true],
  plpgsql: ['do $$ begin perform 1; end $$; select 1 as v', 1],
  seg: ["select '1 .. 2'::seg @> '1.5'::seg as v", true],
  tablefunc: ['select count(*)::int as v from normal_rand(3, 0, 1)', 3],
  tsm_system_rows: [
    'create table rows_t as select 1; select count(*)::int as v from rows_t tablesample system_rows(5)',
    1,
  ],
  tsm_system_time: [
    'create table time_t as select 1; select count(*)::int as v from time_t tablesample system_time(1000)',
    1,
  ],
  unaccent: ["select unaccent('Hôtel') as v", 'Hotel'],
  'uuid-ossp': ['select length(uuid_generate_v4()::text) as v', 36],
}
