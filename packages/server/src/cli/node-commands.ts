import { setTimeout as sleep } from 'node:timers/promises'
import { type Column, type KeyhookCommand, OperationFailed, type Output, tableLines, UsageError } from '@keyhook/cli'
import { pino } from 'pino'
import { composeJobQueue } from '../compose/platform.ts'
import { handOverRest, requestLeaving, rescue } from '../databases/moving.ts'
import { deadAfterSeconds, listNodes, type NodeRow, remainingOn, setNodeState } from '../databases/node-sql.ts'
import { createTransact } from '../db/database.ts'
import { createHints } from '../delivery/hints.ts'
import type { Installation } from '../startup/open.ts'
import { operatorCommand } from './installation.ts'

const checkMs = 1_000
/** A node that is only restarting is back by then. */
const lostAfterSeconds = 60

export function addCommands(program: KeyhookCommand): void {
  const node = program.command('node')
  operatorCommand(node, 'list', 'List all nodes with their state, number of databases and store of archives')
    .examples('npx keyhook node list')
    .run(async ({ db }, output) => {
      const nodes = await listNodes(db)
      output.result(
        nodes.map(facts),
        nodes.length === 0 ? 'There are no nodes.' : tableLines(columns, nodes).join('\n'),
      )
    })
  operatorCommand(node, 'drain', 'Move all databases of a running node to other nodes; the node gets no new databases')
    .examples('npx keyhook node drain node-1a2b3c')
    .argument('<node>', 'The id of the node, which "node list" shows')
    .run((installation, output, _options: object, id: string) => drain(installation, id, output))
  operatorCommand(node, 'activate', 'Let a drained node get databases again')
    .examples('npx keyhook node activate node-1a2b3c')
    .argument('<node>', 'The id of the node, which "node list" shows')
    .run(async ({ db }, output, _options: object, id: string) => {
      checkKnown(id, await findNode(db, id))
      if (!(await setNodeState(db, id, 'active')))
        throw new UsageError(`${id} was forgotten and cannot be activated again. Start a node with a new id.`)
      output.result({ node: id, state: 'active' }, `${id} gets databases again.`)
    })
  operatorCommand(
    node,
    'forget',
    'Remove a lost node for good, and restore its databases on other nodes from their backups',
  )
    .examples('npx keyhook node forget node-1a2b3c')
    .argument('<node>', 'The id of the node, which "node list" shows')
    .option('--force', 'Forget the node even if its last heartbeat is less than a minute old; its newest data is lost')
    .run((installation, output, options: { force?: true }, id: string) => forget(installation, id, options, output))
}

async function drain(installation: Installation, id: string, output: Output): Promise<void> {
  const { db } = installation
  const node = checkKnown(id, await findNode(db, id))
  if (node.state === 'forgotten') throw new UsageError(`${id} was forgotten and has no databases to move.`)
  await checkStore(db, node)
  await withQueue(installation, async (deps) => {
    await setNodeState(db, id, 'draining')
    const requested = new Set<string>()
    const progress = createProgress(output, id)
    for (;;) {
      const left = await remainingOn(db, id)
      // Requested, and here without a request again: the node could not give it away.
      const stayed = left.filter((one) => requested.has(one.id) && one.node === id && one.moving_from === null)
      progress(left)
      if (left.length === stayed.length) {
        if (stayed.length > 0)
          throw new OperationFailed(
            `${stayed.length} databases could not be moved and still run on ${id}: ${stayed.map((one) => one.id).join(', ')}. ` +
              `The log of ${id} has the reason (job.failed). Run the command again to retry.`,
          )
        break
      }
      if (isSilent((await findNode(db, id))!))
        output.note(`${id} sends no heartbeat. Start the node, or remove it with "npx keyhook node forget ${id}".`)
      for (const one of await requestLeaving(deps, id, [...requested])) requested.add(one)
      await sleep(checkMs)
    }
    await handOverRest(db, id)
  })
  output.result(
    { node: id, state: 'draining', databases: 0 },
    `${id} is drained: its databases were moved, and it gets no new ones.`,
  )
}

async function forget(
  installation: Installation,
  id: string,
  { force = false }: { force?: boolean },
  output: Output,
): Promise<void> {
  const { db } = installation
  const node = checkKnown(id, await findNode(db, id))
  if (node.silent_seconds < lostAfterSeconds && node.state !== 'forgotten' && !force) {
    throw new UsageError(
      `The last heartbeat of ${id} is ${Math.round(node.silent_seconds)} seconds old. A node can be forgotten after ${lostAfterSeconds} seconds ` +
        'without one. Stop the node and wait, or drain it. --force forgets it now; what the node still accepts is lost.',
    )
  }
  await checkStore(db, node)
  const lost: { id: string; archived_until: string | null }[] = []
  await withQueue(installation, async (deps) => {
    // Final: this node never starts a database again, also if it comes back.
    await setNodeState(db, id, 'forgotten')
    const progress = createProgress(output, id)
    for (;;) {
      const left = await remainingOn(db, id)
      for (const one of left.filter(({ node: at }) => at === id)) {
        const rescued = await rescue(deps, id, one.org_id, one.id)
        if (rescued.kind === 'no_room') output.note(`${one.id}: no node has room for this database; waiting.`)
        if (rescued.kind === 'lost') {
          output.note(`${one.id} (${one.name}): the database is lost, because the store has no backup of it.`)
          lost.push({ id: one.id, archived_until: null })
        }
        if (rescued.kind !== 'restoring') continue
        const until = rescued.archivedUntil.toISOString()
        output.note(`${one.id} (${one.name}): what was committed after ${until} is lost.`)
        lost.push({ id: one.id, archived_until: until })
      }
      progress(left)
      if (left.length === 0) break
      await sleep(checkMs)
    }
    await handOverRest(db, id)
  })
  output.result({ node: id, state: 'forgotten', lost }, `${id} is forgotten. Its databases are on other nodes.`)
}

type Deps = Parameters<typeof requestLeaving>[0]

async function withQueue(installation: Installation, work: (deps: Deps) => Promise<void>): Promise<void> {
  const { db } = installation
  const queue = composeJobQueue(installation, { log: pino({ level: 'silent' }), worksOnJobs: false })
  const transact = createTransact(db, createHints({ db, onError() {} }).give)
  try {
    await work({ db, transact, queue })
  } finally {
    await queue.close()
  }
}

const findNode = async (db: Installation['db'], id: string): Promise<NodeRow | undefined> =>
  (await listNodes(db)).find((node) => node.id === id)

function checkKnown(id: string, node: NodeRow | undefined): NodeRow {
  if (node === undefined) throw new UsageError(`There is no node ${id}. "npx keyhook node list" lists all nodes.`)
  return node
}

/** Databases move through the store. */
async function checkStore(db: Installation['db'], node: NodeRow): Promise<void> {
  if (node.store === null) {
    throw new UsageError(
      `${node.id} does not archive the write-ahead logs of its databases (KEYHOOK_POINT_IN_TIME_RESTORE=off), so they cannot be restored on another node.`,
    )
  }
  const nodes = await listNodes(db)
  const isShared = nodes.some(({ id, store, state }) => id !== node.id && store === node.store && state === 'active')
  if (isShared) return
  throw new UsageError(
    `No other active node can read the archives of ${node.id}. Store archives in a bucket (KEYHOOK_S3_BUCKET), or in a directory that ` +
      'all nodes mount (KEYHOOK_ARCHIVES_DIR); see docs/operating.md.',
  )
}

/** Says what has changed since the last call. */
function createProgress(output: Output, node: string) {
  let before = new Map<string, string>()
  return (left: Awaited<ReturnType<typeof remainingOn>>) => {
    const now = new Map(left.map((one) => [one.id as string, stepOf(one, node)]))
    for (const [id, step] of now) if (before.get(id) !== step) output.note(`${id}: ${step}`)
    for (const id of before.keys()) if (!now.has(id)) output.note(`${id}: done`)
    before = now
  }
}

function stepOf(one: { status: string; node: string; moving_from: string | null }, node: string): string {
  if (one.node !== node) return `being restored on ${one.node}`
  if (one.status === 'deleting') return 'being deleted'
  if (one.moving_from === null) return one.status === 'available' ? 'running' : 'being created'
  return one.status === 'available' ? 'waiting to be moved' : 'closed to clients, its write-ahead log is being stored'
}

const isSilent = ({ silent_seconds }: NodeRow): boolean => silent_seconds > deadAfterSeconds

const facts = (row: NodeRow) => ({
  id: row.id,
  state: row.state,
  host: row.host,
  databases: row.databases,
  databases_max: row.databases_max,
  seen_seconds_ago: Math.round(row.silent_seconds),
  store: row.store,
})

const columns: readonly Column<NodeRow>[] = [
  { title: 'Node', of: ({ id }) => id },
  { title: 'State', of: (row) => (row.state === 'active' && isSilent(row) ? 'no heartbeat' : row.state) },
  { title: 'Host', of: ({ host }) => host },
  { title: 'Databases', of: (row) => `${row.databases} of ${row.databases_max}` },
  { title: 'Last heartbeat', of: (row) => `${Math.round(row.silent_seconds)} s ago` },
  { title: 'Archives', of: ({ store }) => store ?? 'no WAL', mayShrink: true },
]
