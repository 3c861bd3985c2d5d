import { setTimeout as sleep } from 'node:timers/promises'
import { type Output, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { pino } from 'pino'
import { operator } from '../access/audit.ts'
import { composeJobQueue } from '../compose/platform.ts'
import { createTransact } from '../db/database.ts'
import { deleteOrganization, deleteUser } from '../deletion/rules.ts'
import { type DeletionRow, findDeletion } from '../deletion/sql.ts'
import { createHints } from '../delivery/hints.ts'
import { type DeletionId, isId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { findOrganization } from '../organizations/sql.ts'
import { userExisted } from '../organizations/users.ts'
import type { Installation } from '../startup/open.ts'
import { operatorCommand } from './installation.ts'

const checkMs = 1_000

type Kind = DeletionRow['kind']
type Options = { org: string; user: string; confirm: string; wait: boolean }

const words = {
  organization: {
    summary: 'Delete an organization for good, with its databases, backups and history',
    option: '--org <org>',
    id: 'The id of the organization (org_…)',
    confirm: 'The name of the organization, exactly',
    example: 'npx keyhook org delete --org org_… --confirm "Acme"',
  },
  user: {
    summary: 'Remove a user from all organizations, and erase the personal data of the user for good',
    option: '--user <usr>',
    id: 'The id of the user (usr_…)',
    confirm: 'The e-mail address of the user, or the name of a service member, exactly',
    example: 'npx keyhook user delete --user usr_… --confirm ada@example.com',
  },
} as const

export function addDeletion(parent: Command, kind: Kind): void {
  const { summary, option, id, confirm, example } = words[kind]
  operatorCommand(parent, 'delete', summary)
    .examples(example)
    .requiredOption(option, id)
    .requiredOption('--confirm <name>', confirm)
    .option('--no-wait', 'Do not wait until everything is erased; a running server erases it all the same')
    .run(async (installation, output, options: Options) => {
      const deletion = await begin(installation, kind, options)
      const { finished_at, ...row } = options.wait ? await untilErased(installation, output, deletion.id) : deletion
      output.result(
        { ...row, requested_at: isoTime(row.requested_at), finished_at: finished_at && isoTime(finished_at) },
        finished_at === null
          ? `${row.target_id} is deleted. A running server erases what is stored: ${row.id}.`
          : `${row.target_id} is deleted and erased: ${erasedText(row)}.`,
      )
    })
}

async function begin(installation: Installation, kind: Kind, { org, user, confirm }: Options): Promise<DeletionRow> {
  const { db } = installation
  const transact = createTransact(db, createHints({ db, onError() {} }).give)
  if (kind === 'user') {
    if (!isId('usr', user) || !(await userExisted(db, user))) throw new UsageError(`There is no user ${user}.`)
    return transact((tx) => deleteUser(tx, operator, { userId: user, confirm }))
  }
  if (!isId('org', org) || (await findOrganization(db, org)) === null)
    throw new UsageError(`There is no organization ${org}.`)
  const queue = composeJobQueue(installation, { log: pino({ level: 'silent' }), worksOnJobs: false })
  try {
    return await transact((tx) => deleteOrganization(tx, queue, { orgId: org, confirm }))
  } finally {
    await queue.close()
  }
}

/** Each change of what is erased, or of what it waits for, is a line. */
async function untilErased({ db }: Installation, output: Output, id: DeletionId): Promise<DeletionRow> {
  for (let told = ''; ; await sleep(checkMs)) {
    const row = (await findDeletion(db, id))!
    if (row.finished_at !== null) return row
    const text = row.waits_for === null ? erasedText(row) : `waiting for ${row.waits_for}`
    if (text !== told) output.note(`${row.target_id}: ${text}`)
    told = text
  }
}

function erasedText({ deleted }: Pick<DeletionRow, 'deleted'>): string {
  const parts = Object.entries(deleted).map(([table, rows]) => `${rows} ${table.replaceAll('_', ' ')}`)
  return parts.length === 0 ? 'nothing is erased yet' : parts.join(', ')
}
