import { existsSync, readFileSync } from 'node:fs'

/** An entry of docs/decisions: its lines by their names, such as `Open`, `Chosen`, `Rests on`, `Code`. */
export type Decision = { number: number; title: string; said: ReadonlyMap<string, string> }

const file = new URL('../../../../../docs/decisions/README.md', import.meta.url)

/** The register as it stands in the checkout; empty where the server was installed without its documents. */
export function readRegister(): Decision[] {
  return existsSync(file) ? decisionsOf(readFileSync(file, 'utf8')) : []
}

const decisionsOf = (markdown: string): Decision[] =>
  markdown
    .split(/^## /m)
    .slice(1)
    .map((entry) => {
      const [, number, title] = /^(\d+)\. (.+)$/m.exec(entry)!
      const said = [...entry.matchAll(/^- \*\*(.+?):\*\* (.+)$/gm)].map(([, name, text]): [string, string] => [
        name!,
        text!,
      ])
      return { number: Number(number), title: title!, said: new Map(said) }
    })
