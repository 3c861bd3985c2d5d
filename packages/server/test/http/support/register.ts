import { readFileSync } from 'node:fs'

/** An entry of docs/decisions: its lines by their names, such as `Open`, `Chosen`, `Rests on`, `Code`. */
type Decision = { number: number; title: string; lines: ReadonlyMap<string, string> }

const file = new URL('../../../../../docs/decisions/README.md', import.meta.url)

export const readRegister = (): Decision[] =>
  readFileSync(file, 'utf8')
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
