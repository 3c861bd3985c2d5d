import { createHash, randomBytes } from 'node:crypto'
import { chmod, copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Home } from './home.ts'

/** What a customer may create, each with a test: extensions of PostgreSQL itself that it marks as trusted, and no other language. */
export const offeredExtensions = [
  'btree_gin',
  'btree_gist',
  'citext',
  'cube',
  'dict_int',
  'fuzzystrmatch',
  'hstore',
  'intarray',
  'lo',
  'ltree',
  'pg_trgm',
  'pgcrypto',
  'plpgsql',
  'seg',
  'tablefunc',
  'tsm_system_rows',
  'tsm_system_time',
  'unaccent',
  'uuid-ossp',
] as const

/** From this version on, PostgreSQL can be told where to look for extensions. */
const controlPathMajor = 18

/** Makes PostgreSQL find the offered extensions only: a directory with copies of their files. Customers cannot change the setting. */
export async function extensionSettings(home: Home): Promise<Readonly<Record<string, string>>> {
  if (home.binaries.major < controlPathMajor) return {}
  const list = createHash('sha256').update(offeredExtensions.join()).digest('hex').slice(0, 8)
  const path = join(home.path, `extensions-${list}-${home.version}`)
  if (!(await stat(path).catch(() => undefined))) await copyOffered(home, path)
  return { extension_control_path: path }
}

async function copyOffered({ path: home, binaries }: Home, path: string): Promise<void> {
  const staging = `${path}.preparing-${randomBytes(6).toString('hex')}`
  // PostgreSQL looks in the subdirectory `extension`.
  await mkdir(join(staging, 'extension'), { recursive: true })
  for (const name of await readdir(binaries.extensions)) {
    const extension = /^([\w-]+?)(?:--.*)?\.(?:control|sql)$/.exec(name)?.[1]
    if (!offeredExtensions.some((one) => one === extension)) continue
    const copy = join(staging, 'extension', name)
    await copyFile(join(binaries.extensions, name), copy)
    await chmod(copy, 0o644)
  }
  // Every account of an instance reads them, whatever the umask is.
  for (const directory of [join(staging, 'extension'), staging]) await chmod(directory, 0o755)
  // Another database may have been faster.
  await rename(staging, path).catch(() => rm(staging, { recursive: true, force: true }))
  for (const name of await readdir(home)) {
    if (name.startsWith('extensions-') && !path.endsWith(`/${name}`) && !name.includes('.preparing-'))
      await rm(join(home, name), { recursive: true, force: true })
  }
}

const quoted = offeredExtensions.map((name) => `'${name}'`).join(', ')
const body = `
  declare other text;
  begin
    select extname into other from pg_catalog.pg_extension where extname <> all (array[${quoted}]) limit 1;
    if other is not null then
      raise exception 'extension "%" is not available', other using errcode = 'feature_not_supported';
    end if;
  end`

/** For older versions: a trigger, which only a superuser can drop or switch off. Before the database is created, one per line. */
export const extensionRules = (major: number): string[] =>
  major >= controlPathMajor
    ? []
    : [
        'create schema keyhook',
        `create function keyhook.check_extensions() returns event_trigger language plpgsql set search_path = pg_catalog as $$${body}$$`,
        `create event trigger keyhook_check_extensions on ddl_command_end when tag in ('CREATE EXTENSION', 'CREATE LANGUAGE') execute function keyhook.check_extensions()`,
      ].map((statement) => statement.replace(/\s+/g, ' '))
