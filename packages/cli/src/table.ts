import type { List } from '@keyhook/client'
import { type Output, UsageError } from './output.ts'
import { cut, printable, styled, terminalColumns, widthOf } from './style.ts'

export type Column<Row> = {
  title: string
  of(row: Row): string | number | null
  /** May be cut where the terminal is too narrow. Ids are not: people copy them. */
  mayShrink?: boolean
  style?(text: string): string
  /** Left out where the terminal is too narrow. */
  isExtra?: true
}

const gap = '  '
const shortest = 8

/** Lines of a table that fits the terminal. Without rows there is not even a head. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  columnsMax = terminalColumns(),
): string[] {
  if (rows.length === 0) return []
  const cells = rows.map((row) => columns.map((column) => cell(column.of(row))))
  const widths = columns.map(({ title }, i) => Math.max(title.length, ...cells.map((row) => widthOf(row[i]!))))
  if (columnsMax !== null && !shrink(columns, widths, columnsMax)) {
    const needed = columns.filter(({ isExtra }) => !isExtra)
    if (needed.length < columns.length) return tableLines(needed, rows, columnsMax)
  }
  const line = (texts: readonly string[], style: (text: string, i: number) => string): string =>
    texts
      .map((text, i) => {
        const fitting = cut(text, widths[i]!)
        const isLast = i === texts.length - 1
        return style(fitting, i) + (isLast ? '' : ' '.repeat(widths[i]! - widthOf(fitting)))
      })
      .join(gap)
      .trimEnd()
  return [
    line(
      columns.map(({ title }) => title),
      (text) => styled('bold', text),
    ),
    ...cells.map((row) => line(row, (text, i) => columns[i]!.style?.(text) ?? text)),
  ]
}

const cell = (value: string | number | null): string =>
  value === null || value === '' ? '-' : printable(String(value))

/** Takes what is too much from the widest columns that may shrink. False if that is not enough. */
function shrink<Row>(columns: readonly Column<Row>[], widths: number[], columnsMax: number): boolean {
  const total = () => widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1))
  while (total() > columnsMax) {
    let widest = -1
    for (const [i, { mayShrink }] of columns.entries()) {
      if (mayShrink && widths[i]! > shortest && (widest < 0 || widths[i]! > widths[widest]!)) widest = i
    }
    if (widest < 0) return false
    widths[widest]! -= 1
  }
  return true
}

/** One record, a field a line. */
export function recordLines(fields: Record<string, string | number | null | undefined>): string[] {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => `${styled('bold', name.padEnd(width))}  ${cell(value ?? null)}`)
}

/** The same for a column of a table, where room is short: `11-17 18:40:12`. */
export const shortTime = (time: string | null): string | null => time && timeText(time)!.slice(5)

/** A time for people, in UTC: `2026-11-17 18:40:12`. */
export const timeText = (time: string | null): string | null => time && `${time.slice(0, 10)} ${time.slice(11, 19)}`

/** Newest first, as the API lists them. A history can have millions of records, so the terminal shows some. */
const limitDefault = 50

export type ListOptions = { limit: string; json?: boolean }

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
  if (isMore) output.note(`There are more than ${wanted} records. --limit N or --limit all lists more of them.`)
}

function readLimit(text: string): number {
  if (text === 'all') return Number.POSITIVE_INFINITY
  const limit = /^\d+$/.test(text) ? Number(text) : 0
  if (limit < 1) throw new UsageError(`--limit: ${JSON.stringify(text)} is neither a whole number from 1 nor "all".`)
  return limit
}

/** For the page size: no more than is shown, plus one to know whether there are more. */
export const pageSize = (text: string): number => Math.min(100, readLimit(text) + 1)
