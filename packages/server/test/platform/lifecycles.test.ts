import fc from 'fast-check'
import { expect, test } from 'vitest'
import { backupMoves, backupStatuses, moveBackup } from '../../src/domain/backup.ts'
import { databaseMoves, databaseStatuses, moveDatabase } from '../../src/domain/database.ts'
import { invoiceStatuses, moveInvoice } from '../../src/domain/invoice.ts'
import { moveRestore, restoreMoves, restoreStatuses } from '../../src/domain/restore.ts'

type Life<S extends string, M extends string> = {
  statuses: readonly S[]
  moves: readonly M[]
  move: (status: S, move: M) => S | null
  start: S
  /** What an owner hears of: each may happen once in a life. */
  outcomes: readonly S[]
}

const lives: Record<string, Life<string, string>> = {
  database: {
    statuses: databaseStatuses,
    moves: databaseMoves,
    move: moveDatabase as Life<string, string>['move'],
    start: 'provisioning',
    outcomes: ['available', 'failed'],
  },
  backup: {
    statuses: backupStatuses,
    moves: backupMoves,
    move: moveBackup as Life<string, string>['move'],
    start: 'running',
    outcomes: ['completed', 'failed'],
  },
  restore: {
    statuses: restoreStatuses,
    moves: restoreMoves,
    move: moveRestore as Life<string, string>['move'],
    start: 'running',
    outcomes: ['completed', 'failed'],
  },
  invoice: {
    statuses: invoiceStatuses,
    moves: ['pay'],
    move: moveInvoice as Life<string, string>['move'],
    start: 'issued',
    outcomes: ['paid'],
  },
}

for (const [name, life] of Object.entries(lives)) {
  test(`every status of a ${name} answers every move, with a status or with a refusal`, () => {
    for (const status of life.statuses) {
      for (const move of life.moves) {
        const next = life.move(status, move)
        expect(next === null || life.statuses.includes(next)).toBe(true)
        expect(next).not.toBe(status)
      }
    }
  })

  test(`however moves come, a ${name} has at most one outcome, and a move that was made cannot be made again`, () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...life.moves), { maxLength: 30 }), (moves) => {
        let status = life.start
        const passed: string[] = []
        for (const move of moves) {
          const next = life.move(status, move)
          if (next === null) continue
          status = next
          passed.push(next)
          expect(life.move(status, move)).toBeNull()
        }
        expect(passed.filter((one) => life.outcomes.includes(one)).length).toBeLessThanOrEqual(1)
        // No status twice: a life has no circles.
        expect(new Set(passed).size).toBe(passed.length)
      }),
    )
  })
}

test('from everywhere, a database and a backup can be led to their end', () => {
  for (const status of databaseStatuses.filter((one) => one !== 'deleted')) {
    const removing = status === 'deleting' ? status : moveDatabase(status, 'remove')
    expect(moveDatabase(removing!, 'clear')).toBe('deleted')
  }
  for (const status of ['completed', 'failed'] as const) {
    expect(moveBackup(moveBackup(status, 'remove')!, 'clear')).toBe('deleted')
  }
})
