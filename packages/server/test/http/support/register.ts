import { readFileSync } from 'node:fs'

/** An entry of a file of docs/decisions: its lines by their names, such as `Open`, `Chosen`, `Rests on`, `Code`. */
type Decision = { number: number; title: string; lines: ReadonlyMap<string, string> }

const folder = new URL('../../../../../docs/decisions/', import.meta.url)

export const readRegister = (name: 'README.md' | 'records.md'): Decision[] =>
  readFileSync(new URL(name, folder), 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((entry) => {
      const [, number, title] = /^(\d+)\. (.+)$/m.exec(entry)!
      const lines = [...entry.matchAll(/^- \*\*(.+?):\*\* (.+)$/gm)].map(([, name, text]): [string, string] => [
        name!,
        text!,
      ])
      return { number: Number(number), title: title!, lines: new Map(lines) }
    })
