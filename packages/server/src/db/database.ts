import { setTimeout as sleep } from 'node:timers/promises'
import { Pool, type PoolClient } from 'pg'
import type { OrgId } from '../lib/ids.ts'
import { type ConnectOptions, clientConfig, listen } from './connection.ts'
import type { ConnectionTarget } from './connection-url.ts'
import { isStalePreparedStatement } from './errors.ts'
import {
  type ClientSession,
  type Compiled,
  compile,
  type Fragment,
  openSession,
  prepared,
  type Row,
  type Rows,
  Statement,
} from './statement.ts'

export { clientConfig } from './connection.ts'
export type { ConnectionTarget } from './connection-url.ts'
export * from './errors.ts'

/** Sends a statement: `await db<Row[]>\`select …\``. Without `await` the template is a part for another one. */
type Query = <T extends readonly Row[] = Row[]>(strings: TemplateStringsArray, ...values: Value[]) => Statement<T>

/** Anything but undefined, which the driver would send as null. */
type Value = NonNullable<unknown> | null

/** A pool or a transaction: what a query needs, and no more. */
export type Executor = Query & {
  /** Text that is not a template: several statements, or one that was assembled once at start. Prepared when it has values. */
  unsafe<T extends readonly Row[] = Row[]>(text: string, values?: readonly Value[]): Promise<Rows<T>>
}

/** Writes that must succeed or fail together ask for this, so that they cannot be called outside a transaction. */
export type Transaction = Executor & {
  /** What fails inside is undone, and the transaction continues. */
  savepoint<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
}

/** One connection for several statements. It is closed on release, with its settings, locks and temporary tables. */
type Session = Executor & { release(): void }

export type Database = Executor & {
  begin<T>(work: (tx: Transaction) => PromiseLike<T>): Promise<T>
  reserve(): Promise<Session>
  /** Calls back for every notification, also after the connection was lost and made again. Returns a function that stops it. */
  listen(channel: string, onPayload: (payload: string) => void): Promise<() => Promise<void>>
  /** Waits for queries up to that many seconds, then closes their connections. */
  end(options?: { timeout?: number }): Promise<void>
  readonly target: ConnectionTarget
  usage(): PoolUsage
}

/** `open` counts idle connections too; `waiting` are statements and transactions without one. */
type PoolUsage = { name: string; connectionsMax: number; open: number; idle: number; waiting: number }

/**
 * A transaction whose client froze or vanished would keep its locks until TCP notices, two hours by default. SET LOCAL, because
 * behind a transaction pooler a session is not ours.
 */
const begin = 'begin; set local idle_in_transaction_session_timeout = 5000'

/**
 * The time to connect (10 s by default) also limits the wait for a free connection of the pool: a request that waited so long gets
 * 503, and a queue that grows faster than it drains stays bounded.
 */
export function connect(target: ConnectionTarget, options: ConnectOptions & { connectionsMax: number }): Database {
  const config = clientConfig(target, options)
  const isPrepared = target.prepare ?? true
  const pool = new Pool({ ...config, max: options.connectionsMax, idleTimeoutMillis: 0 })
  const inUse = new Set<PoolClient>()
  let ended: Promise<void> | undefined
  let isClosed = false
  // The query that uses the connection fails with the error; without listeners the event would end the process.
  pool.on('connect', (client) => void client.on('error', () => {}))
  pool.on('error', () => {})
  pool.on('acquire', (client) => {
    inUse.add(client)
    // It was being made when the others were closed. Nobody would close it any more, and a server that is not trusted may be silent.
    if (isClosed) void client.end()
  })
  pool.on('release', (_error, client) => void inUse.delete(client))

  async function withSession<T>(work: (session: ClientSession) => Promise<T>): Promise<T> {
    const session = openSession(await pool.connect())
    try {
      return await work(session)
    } finally {
      session.release()
    }
  }

  /** Outside a transaction, a prepared statement that the server no longer knows is sent again, unnamed. */
  async function sendAlone(compiled: Compiled): Promise<Rows<Row[]>> {
    try {
      return await withSession((session) => session.send(compiled, isPrepared))
    } catch (error) {
      if (!isStalePreparedStatement(error)) throw error
      return withSession((session) => session.send(compiled, false))
    }
  }

  const executorOf = (session: ClientSession): Executor =>
    executor(
      (compiled) => session.send(compiled, isPrepared),
      (text) => session.sendText(text),
    )

  return Object.assign(
    executor(sendAlone, (text) => withSession((session) => session.sendText(text))),
    {
      target,
      usage: () => ({
        name: options.name.replace(/^keyhook /, ''),
        connectionsMax: options.connectionsMax,
        open: pool.totalCount,
        idle: pool.idleCount,
        waiting: pool.waitingCount,
      }),
      begin: <T>(work: (tx: Transaction) => PromiseLike<T>) =>
        withSession((session) => transact(session, executorOf(session), work)),
      async reserve() {
        const session = openSession(await pool.connect())
        return Object.assign(executorOf(session), { release: () => session.release({ close: true }) })
      },
      listen: (channel: string, onPayload: (payload: string) => void) => listen(config, channel, onPayload),
      end({ timeout = 5 } = {}) {
        ended ??= end(pool, Date.now() + timeout * 1_000).then(() => {
          isClosed = true
          for (const client of inUse) void client.end()
        })
        return ended
      },
    },
  )
}

/** Ends at the deadline, with connections that are still in use. */
async function end(pool: Pool, deadline: number): Promise<void> {
  // A pool that is ending serves no one who still waits for a connection.
  while (pool.waitingCount > 0 && Date.now() < deadline) await sleep(5)
  const late = new AbortController()
  const waited = sleep(Math.max(0, deadline - Date.now()), undefined, { signal: late.signal })
  await Promise.race([pool.end(), waited])
  late.abort()
  waited.catch(() => {})
}

async function transact<T>(
  session: ClientSession,
  sql: Executor,
  work: (tx: Transaction) => PromiseLike<T>,
): Promise<T> {
  const tx: Transaction = Object.assign(sql, {
    savepoint: <U>(inner: (tx: Transaction) => Promise<U>) => savepoint(session, tx, inner),
  })
  await session.sendText(begin)
  let result: T
  try {
    result = await work(tx)
  } catch (error) {
    // When this fails too, the connection is lost or closed, and the transaction with it.
    await session.sendLast('rollback').catch(() => {})
    throw error
  }
  const command = await session.sendLast('commit')
  if (command !== 'COMMIT') throw new Error('The transaction was rolled back: one of its statements had failed.')
  return result
}

async function savepoint<T>(
  session: ClientSession,
  tx: Transaction,
  work: (tx: Transaction) => Promise<T>,
): Promise<T> {
  await session.sendText('savepoint keyhook')
  try {
    const result = await work(tx)
    await session.sendText('release savepoint keyhook')
    return result
  } catch (error) {
    await session.sendText('rollback to savepoint keyhook; release savepoint keyhook')
    throw error
  }
}

function executor(
  send: (compiled: Compiled) => Promise<Rows<Row[]>>,
  sendText: (text: string) => Promise<Rows<Row[]>>,
): Executor {
  const run = (statement: Fragment) => send(compile(statement))
  const query = (strings: TemplateStringsArray, ...values: unknown[]) => new Statement(run, strings, values)
  const unsafe = (text: string, values?: readonly unknown[]) =>
    values === undefined ? sendText(text) : send(prepared(text, values))
  // The caller names the type of the rows.
  return Object.assign(query, { unsafe }) as Executor
}

/** PostgreSQL's clock, for times that all nodes have to agree on: their own clocks may be wrong. */
export const databaseNowMs = async (db: Executor): Promise<number> => {
  const [row] = await db<{ ms: string }[]>`select trunc(extract(epoch from clock_timestamp()) * 1000)::bigint as ms`
  return Number(row!.ms)
}

/** A page by keyset: everything older than `before`, newest first. No offset: page 1,000 costs what page 1 costs. */
export type PageRequest = { before: string | null; limit: number }

/** A transaction that may publish. Whatever publishes asks for this type, so that no commit goes without its hint. */
export type PublishingTransaction = Transaction & {
  /** Deliveries of this organization became due. */
  hintAfterCommit(orgId: OrgId): void
}

export type Transact = <T>(work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>

/** `hint` is called after the commit, with the organizations that the transaction published to. */
export const createTransact =
  (db: Database, hint: (orgIds: readonly OrgId[]) => void): Transact =>
  async (work) => {
    const orgIds = new Set<OrgId>()
    const result = await db.begin((tx) =>
      work(Object.assign(tx, { hintAfterCommit: (orgId: OrgId) => void orgIds.add(orgId) })),
    )
    if (orgIds.size > 0) hint([...orgIds])
    return result
  }

/** A transaction in which no other one counts, and then adds, what this organization has. */
export type HoldOrganization = <T>(orgId: OrgId, work: (tx: PublishingTransaction) => Promise<T>) => Promise<T>
