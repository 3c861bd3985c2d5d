import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, type Database, KeyhookError } from '@keyhook/client'
import { databaseIdOf } from '../arguments.ts'
import { OperationFailed, type Output, UsageError } from '../output.ts'
import { readInput } from '../prompt.ts'
import type { Session, SessionOptions } from '../session.ts'

type Options = SessionOptions & { command?: string; passwordStdin?: true; print?: true }

/**
 * Runs psql, which asks for the password itself. A password from standard input goes through the environment: arguments are
 * visible to every user of the machine.
 */
export async function connectToDatabase({ client, output }: Session, options: Options, name: string): Promise<void> {
  const id = await databaseIdOf(client, name)
  const database = await client.databases.get(id)
  const address = database.connection_string
  if (address === null)
    throw new UsageError(`The database ${id} accepts no connections yet: its status is ${database.status}.`)
  if (options.json) return output.result(database, '')
  if (options.print) return output.result(database, address)
  const env = { ...process.env }
  if (options.passwordStdin) env.PGPASSWORD = await readInput()
  // A server that asks for the password itself is not ours. libpq before 16 does not know this.
  env.PGREQUIREAUTH ??= 'scram-sha-256'
  const authority = env.PGSSLROOTCERT === undefined ? await authorityOf(client) : null
  if (authority === null) return runPsql(database, address, options, env, output)
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-'))
  try {
    env.PGSSLROOTCERT = join(folder, 'database-ca.pem')
    await writeFile(env.PGSSLROOTCERT, authority)
    await runPsql(database, address, options, env, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runPsql(
  database: Database,
  address: string,
  options: Options,
  env: NodeJS.ProcessEnv,
  output: Output,
): Promise<void> {
  const args = [...(options.command === undefined ? [] : ['--command', options.command]), address]
  const psql = spawn('psql', args, { stdio: options.passwordStdin ? ['ignore', 'inherit', 'inherit'] : 'inherit', env })
  // Ctrl-C is for the query that runs in psql.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    const [code] = await once(psql, 'exit')
    if (code !== 0) throw new OperationFailed(`psql ended with ${code === null ? 'a signal' : `exit code ${code}`}.`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    output.note(
      'psql is not installed (Debian: apt-get install postgresql-client, macOS: brew install libpq). The connection string is:',
    )
    output.result(database, address)
  } finally {
    process.off('SIGINT', ignore)
  }
}

/** The certificate of the authority that signs for databases; null if that is a public authority. */
const authorityOf = (client: Client): Promise<string | null> =>
  client.databases.certificateAuthority().catch((error: unknown) => {
    if (error instanceof KeyhookError && error.code === 'not_found') return null
    throw error
  })
