import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { OperationFailed } from './explain-client-error.ts'
import { UsageError } from './output.ts'
import { readInput } from './prompt.ts'
import type { Session, SessionOptions } from './session.ts'

type Options = SessionOptions & { command?: string; passwordStdin?: true; print?: true }

/**
 * Runs psql, which asks for the password itself. A password from standard input goes through the environment: arguments are
 * visible to every user of the machine.
 */
export async function connectToDatabase({ client, output }: Session, options: Options, id: string): Promise<void> {
  const database = await client.databases.get(id)
  const address = database.connection_string
  if (address === null) throw new UsageError(`The database ${id} is ${database.status}: it accepts no connections yet.`)
  if (options.json) return output.result(database, '')
  if (options.print) return output.result(database, address)
  const env = { ...process.env }
  if (options.passwordStdin) env.PGPASSWORD = await readInput()
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
