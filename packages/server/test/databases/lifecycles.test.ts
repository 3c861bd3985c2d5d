import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  backupMoves,
  backupStatuses,
  firstBackupStatus,
  firstRestoreStatus,
  moveBackup,
  moveRestore,
  restoreMoves,
  restoreStatuses,
} from '../../src/backups/backup.ts'
import { firstInvoiceStatus, invoiceStatuses, moveInvoice } from '../../src/billing/invoice.ts'
import { databaseMoves, databaseStatuses, firstDatabaseStatus, moveDatabase } from '../../src/databases/database.ts'

type Life = {
  statuses: readonly string[]
  moves: readonly string[]
  move: (status: string, move: string) => string | null
  start: string
  /** The status that each move leads to. */
  targets: Readonly<Record<string, string>>
  /** The published outcomes: at most one of them is ever reached. */
  outcomes: readonly string[]
}

const life = <S extends string, M extends string>(
  statuses: readonly S[],
  start: S,
  moves: readonly M[],
  move: (status: S, move: M) => S | null,
  targets: Record<M, S>,
  outcomes: readonly S[],
): Life => ({ statuses, moves, move: move as Life['move'], start, targets, outcomes })

const removal = { give_up: 'failed', remove: 'deleting', clear: 'deleted' } as const
const ending = { complete: 'completed', give_up: 'failed' } as const

const lives: Record<string, Life> = {
  database: life(
    databaseStatuses,
    firstDatabaseStatus,
    databaseMoves,
    moveDatabase,
    { serve: 'available', ...removal },
    ['available', 'failed'],
  ),
  backup: life(backupStatuses, firstBackupStatus, backupMoves, moveBackup, { ...ending, ...removal }, [
    'completed',
    'failed',
  ]),
  restore: life(restoreStatuses, firstRestoreStatus, restoreMoves, moveRestore, ending, ['completed', 'failed']),
  invoice: life(invoiceStatuses, firstInvoiceStatus, ['pay'], moveInvoice, { pay: 'paid' }, ['paid']),
}

for (const [name, { statuses, moves, move: moved, start, targets, outcomes }] of Object.entries(lives)) {
  test(`every status of a ${name} answers every move, with another status or with null`, () => {
    for (const status of statuses) {
      for (const move of moves) {
        const next = moved(status, move)
        expect(next === null || statuses.includes(next)).toBe(true)
        expect(next).not.toBe(status)
      }
    }
  })

  test(`each move of a ${name} always leads to the same status`, () => {
    for (const move of moves) {
      const reached = new Set(statuses.map((status) => moved(status, move)).filter((next) => next !== null))
      expect([...reached], move).toEqual([targets[move]])
    }
  })

  test(`a ${name} starts with the only status that no move leads to`, () => {
    const reached = statuses.flatMap((status) => moves.map((move) => moved(status, move)))
    expect(statuses.filter((status) => !reached.includes(status))).toEqual([start])
  })

  test(`a ${name} has at most one outcome, and no move happens twice, in any order of moves`, () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...moves), { maxLength: 30 }), (attempted) => {
        let status = start
        const passed: string[] = []
        for (const move of attempted) {
          const next = moved(status, move)
          if (next === null) continue
          status = next
          passed.push(next)
          expect(moved(status, move)).toBeNull()
        }
        expect(passed.filter((one) => outcomes.includes(one)).length).toBeLessThanOrEqual(1)
        // No status is reached twice.
        expect(new Set(passed).size).toBe(passed.length)
      }),
    )
  })
}

test('from every status, a database and a backup can be removed', () => {
  for (const status of databaseStatuses.filter((one) => one !== 'deleted')) {
    const removing = status === 'deleting' ? status : moveDatabase(status, 'remove')
    expect(moveDatabase(removing!, 'clear')).toBe('deleted')
  }
  for (const status of ['completed', 'failed'] as const) {
    expect(moveBackup(moveBackup(status, 'remove')!, 'clear')).toBe('deleted')
  }
})
