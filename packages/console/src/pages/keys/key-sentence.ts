import type { KeyPermission, KeyRestrictions } from '@keyhook/client'
import { databasePermissions, inOrder, permissionWords, scopeOf } from './permissions.ts'

const and = new Intl.ListFormat('en-GB', { type: 'conjunction' })
const or = new Intl.ListFormat('en-GB', { type: 'disjunction' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
const minute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

export const dayText = (time: string): string => day.format(new Date(time))

const shownMax = 3

/** "a, b, c and 4 more": a list of a hundred networks is not a sentence. */
const few = (items: readonly string[], list: Intl.ListFormat): string =>
  items.length > shownMax + 1
    ? and.format([...items.slice(0, shownMax), `${items.length - shownMax} more`])
    : list.format(items)

/** What a key may do at most, where and until when: "May read webhooks, from 203.0.113.0/24, until 3 Feb 2027." */
export function keySentence(
  { permissions, databases, allowed_networks: networks, expires_at: expiresAt }: KeyRestrictions,
  { databaseNames, verb = 'May' }: { databaseNames: ReadonlyMap<string, string>; verb?: 'May' | 'Could' },
): string {
  const names = databases?.map((id) => `“${databaseNames.get(id) ?? id}”`)
  const parts = [
    `${verb} ${deeds(permissions, databases !== null)}`,
    names && databasesText(names),
    networks && `from ${few(networks.map(networkText), or)}`,
    `until ${expiresAt === null ? 'it is revoked' : endText(expiresAt)}`,
  ]
  return `${parts.filter(Boolean).join(', ')}.`
}

const databasesText = (names: readonly string[]): string =>
  names.length === 0
    ? 'for no database yet (choose at least one)'
    : `only for the ${names.length === 1 ? 'database' : 'databases'} ${few(names, and)}`

/** Whether the server would take it. In URLs too, an IPv6 address is in brackets, and parsing checks it. */
export function isNetwork(text: string): boolean {
  const [, address = '', bits] = /^([\da-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/i.exec(text) ?? []
  if (address.includes(':')) return URL.canParse(`http://[${address}]`) && Number(bits ?? 0) <= 128
  const isByte = (part: string) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255
  const parts = address.split('.')
  return parts.length === 4 && parts.every(isByte) && Number(bits ?? 0) <= 32
}

/** The server stores an address as a network of one. */
const networkText = (network: string): string =>
  isNetwork(network) ? network.replace(network.includes(':') ? /\/128$/ : /\/32$/, '') : `“${network}” (no network)`

/** The hour matters only when the end is near. */
const endText = (time: string): string =>
  Math.abs(Date.parse(time) - Date.now()) < 2 * 86_400_000
    ? `${minute.format(new Date(time))} on ${dayText(time)}`
    : dayText(time)

function deeds(permissions: KeyPermission[] | null, isInDatabases: boolean): string {
  if (isInDatabases) {
    return phrase(databasePermissions.filter((one) => permissions === null || permissions.includes(one)))
  }
  const scope = scopeOf(permissions)
  if (scope === 'role') return 'do everything that its user may do'
  if (scope === 'read_only') return 'read everything that its user may read'
  if (scope === 'webhooks') return 'do everything with webhooks and deliveries, and read events'
  if (scope === 'databases') return 'do everything with databases and backups, and read events'
  return phrase(inOrder(permissions ?? []))
}

/** "read webhooks and events, and create and delete webhooks". */
function phrase(permissions: readonly KeyPermission[]): string {
  const byVerb = Map.groupBy(
    permissions.map((one) => permissionWords[one]),
    ([verb]) => verb,
  )
  const actions = [...byVerb].map(([verb, words]) => ({ verb, what: and.format(words.map(([, noun]) => noun)) }))
  const clauses = [...Map.groupBy(actions, ({ what }) => what)].map(
    ([what, same]) => `${and.format(same.map(({ verb }) => verb))} ${what}`,
  )
  if (clauses.length < 2) return clauses[0] ?? 'do nothing'
  return `${clauses.slice(0, -1).join(', ')}, and ${clauses.at(-1)}`
}
