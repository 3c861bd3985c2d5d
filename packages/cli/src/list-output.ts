import type { List } from '@keyhook/client'
import { type Output, UsageError } from './output.ts'
import { type Column, tableLines } from './table.ts'

/** Newest first, as the API lists them. A history can have millions of records, so the terminal shows some. */
const limitDefault = 50

type ListOptions = { limit: string; json?: boolean }

/** The option --limit of a list of these records. */
export const limitOption = (records: string) =>
  ['--limit <n>', `List at most <n> ${records}, or "all"`, String(limitDefault)] as const

export async function printList<Row extends object>(
  output: Output,
  { limit, json }: ListOptions,
  list: List<Row>,
  columns: readonly Column<Row>[],
  empty: string,
): Promise<void> {
  const wanted = readLimit(limit)
  const rows: Row[] = []
  let isMore = false
  for await (const row of list) {
    if (rows.length === wanted) {
      isMore = true
      break
    }
    rows.push(row)
  }
  if (json) return output.result(rows, '')
  if (rows.length === 0) return output.note(empty)
  process.stdout.write(`${tableLines(columns, rows).join('\n')}\n`)
  if (isMore) output.note(`There are more than ${wanted}. --limit N or --limit all lists more.`)
}

function readLimit(text: string): number {
  if (text === 'all') return Number.POSITIVE_INFINITY
  const limit = /^\d+$/.test(text) ? Number(text) : 0
  if (limit < 1) throw new UsageError(`--limit: ${JSON.stringify(text)} is neither a whole number from 1 nor "all".`)
  return limit
}

/** For the page size: no more than is shown, plus one to know whether there are more. */
export const pageSize = (text: string): number => Math.min(100, readLimit(text) + 1)
