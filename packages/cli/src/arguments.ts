import type { Client, Webhook } from '@keyhook/client'
import { type Command, InvalidArgumentError } from 'commander'
import { UsageError } from './output.ts'

/** Arguments that are ids, by their name in the command: the noun, and how its ids begin. */
const idArguments: Record<string, readonly [noun: string, prefix: string]> = {
  key: ['an API key', 'key'],
  webhook: ['a webhook', 'wh'],
  delivery: ['a delivery attempt', 'dlv'],
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
      ? `There is no database '${text}' in this organization. "npx keyhook databases list" lists the databases.`
      : `Several databases have the name ${JSON.stringify(text)}. Use the id of one:\n${found.map((id) => `  ${id}`).join('\n')}`,
  )
}

/** The id of an event that is named by its id or by its sequence number. */
export async function eventIdOf(client: Client, text: string): Promise<string> {
  if (!/^\d{1,15}$/.test(text)) return text
  const sequence = Number(text)
  const { items } = await client.events.list({ after: Math.max(0, sequence - 1), order: 'asc', limit: 1 }).page()
  if (items[0]?.sequence === sequence) return items[0].id
  throw new UsageError(
    `There is no event with the sequence number ${text}. "npx keyhook events list" lists the newest events.`,
  )
}

export const typesOf = (text: string): Webhook['event_types'] =>
  text
    .split(/[\s,]+/)
    .map((one) => one.trim())
    .filter((one) => one !== '')

export function sequenceOption(option: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option}: ${JSON.stringify(text)} is not a sequence number such as 120.`)
}

/** For options that Commander parses. */
export function integerBetween(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`The value must be a whole number from ${min} to ${max}.`)
  }
}

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Null if it is not a duration such as 5s, 30m, 2h or 3d. */
export function durationSeconds(text: string): number | null {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  return match === null ? null : Number(match[1]) * unitSeconds[match[2]!]!
}

export function durationMs(option: string, text: string): number {
  const seconds = durationSeconds(text)
  if (seconds === null)
    throw new UsageError(`${option}: ${JSON.stringify(text)} is not a duration such as 5s, 30m, 2h or 3d.`)
  return seconds * 1_000
}

export const timestampAfter = (option: string, text: string): string =>
  new Date(Date.now() + durationMs(option, text)).toISOString()

/** A timestamp (2026-11-17T12:00:00Z), or a duration before now (2h). */
export function timestampOption(option: string, text: string): string {
  const seconds = durationSeconds(text)
  if (seconds !== null) return new Date(Date.now() - seconds * 1_000).toISOString()
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return text
  throw new UsageError(
    `${option}: ${JSON.stringify(text)} is neither a timestamp such as 2026-11-17T12:00:00Z nor a duration before now such as 2h.`,
  )
}
