import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, KeyhookError } from '@keyhook/client'
import { OperationFailed } from './explain-client-error.ts'
import { UsageError } from './output.ts'
import { readInput } from './prompt.ts'
import { databaseIdOf } from './record-arguments.ts'
import type { Session, SessionOptions } from './session.ts'

type Options = SessionOptions & { command?: string; passwordStdin?: true; print?: true }

/**
 * Runs psql, which asks for the password itself. A password from standard input goes through the environment: arguments are
 * visible to every user of the machine.
 */
export async function connectToDatabase({ client, output }: Session, options: Options, name: string): Promise<void> {
  const id = await databaseIdOf(client, name)
  const database = await client.databases.get(id)
  const address = database.connection_string
  if (address === null) throw new UsageError(`The database ${id} is ${database.status}: it accepts no connections yet.`)
  if (options.json) return output.result(database, '')
  if (options.print) return output.result(database, address)
  const env = { ...process.env }
  if (options.passwordStdin) env.PGPASSWORD = await readInput()
  // A server that asks for the password itself is not ours. libpq before 16 does not know this.
  env.PGREQUIREAUTH ??= 'scram-sha-256'
  await using files = new AsyncDisposableStack()
  const authority = env.PGSSLROOTCERT === undefined ? await authorityOf(client) : null
  if (authority !== null) {
    const folder = await mkdtemp(join(tmpdir(), 'keyhook-'))
    files.defer(() => rm(folder, { recursive: true, force: true }))
    env.PGSSLROOTCERT = join(folder, 'database-ca.pem')
    await writeFile(env.PGSSLROOTCERT, authority)
  }
  const args = [...(options.command === undefined ? [] : ['--command', options.command]), address]
  const psql = spawn('psql', args, { stdio: options.passwordStdin ? ['ignore', 'inherit', 'inherit'] : 'inherit', env })
  // Ctrl-C is for the query that runs in psql.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    const [code] = await once(psql, 'exit')
    if (code !== 0) throw new OperationFailed(`psql ended with ${code ?? 'a signal'}.`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    output.note(
      'psql is not installed (Debian: apt-get install postgresql-client, macOS: brew install libpq). Connect with:',
    )
    output.result(database, address)
  } finally {
    process.off('SIGINT', ignore)
  }
}

/** Null where there is none, because the certificate is of a public authority. */
const authorityOf = (client: Client): Promise<string | null> =>
  client.databases.certificateAuthority().catch((error: unknown) => {
    if (error instanceof KeyhookError && error.code === 'not_found') return null
    throw error
  })
