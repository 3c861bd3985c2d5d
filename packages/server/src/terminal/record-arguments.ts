import type { Client } from '@keyhook/client'
import type { Command } from 'commander'
import { UsageError } from './output.ts'

/** Arguments that are ids, by their name in the command: the noun, and how its ids begin. */
const idArguments: Record<string, readonly [noun: string, prefix: string]> = {
  key: ['an API key', 'key'],
  webhook: ['a webhook', 'wh'],
  delivery: ['a delivery', 'dlv'],
  backup: ['a backup', 'bak'],
  invoice: ['an invoice', 'inv'],
}

const isId = (prefix: string, text: string): boolean => new RegExp(`^${prefix}_[0-9a-z]{26}$`).test(text)

/** A wrong value is named with the form that is expected; the server would only say that there is no such record. */
export function checkIds(command: Command): void {
  for (const [i, argument] of command.registeredArguments.entries()) {
    const text = command.args[i]
    const known = idArguments[argument.name()]
    if (text === undefined || known === undefined || isId(known[1], text)) continue
    const [noun, prefix] = known
    throw new UsageError(
      `${JSON.stringify(text)} is not the id of ${noun}, such as ${prefix}_01h455vb4pex5vsknk084sn02q.`,
    )
  }
}

/** The id of a database that is named by its id or by its name. */
export async function databaseIdOf(client: Client, text: string): Promise<string> {
  if (isId('db', text)) return text
  const found: string[] = []
  for await (const { id, name } of client.databases.list()) if (name === text) found.push(id)
  if (found.length === 1) return found[0]!
  throw new UsageError(
    found.length === 0
      ? `No database '${text}' in this organization. "npx keyhook databases list" shows all.`
      : `Several databases have the name ${JSON.stringify(text)}. Use an id:\n${found.map((id) => `  ${id}`).join('\n')}`,
  )
}

/** The id of an event that is named by its id or by its sequence number. */
export async function eventIdOf(client: Client, text: string): Promise<string> {
  if (!/^\d{1,15}$/.test(text)) return text
  const sequence = Number(text)
  const { items } = await client.events.list({ after: Math.max(0, sequence - 1), order: 'asc', limit: 1 }).page()
  if (items[0]?.sequence === sequence) return items[0].id
  throw new UsageError(`There is no event with the number ${text}. "npx keyhook events list" shows the newest.`)
}
