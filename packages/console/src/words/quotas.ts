import type { QuotaName } from '@keyhook/client'
import { bytesText, countText } from './numbers.ts'

export const quotaWords: Record<QuotaName, string> = {
  keys: 'Active API keys',
  webhooks: 'Webhooks',
  databases: 'Databases',
  members: 'Members and open invitations',
  database_bytes: 'Storage limits of all databases',
  archive_bytes: 'Backups and write-ahead logs',
  key_requests: 'Requests per minute of each key',
  requests: 'Requests per minute of all keys',
}

export const quotaNames = Object.keys(quotaWords) as QuotaName[]

export const isSize = (name: QuotaName): boolean => name.endsWith('_bytes')

export const amountText = (name: QuotaName, amount: number): string =>
  isSize(name) ? bytesText(amount) : countText(amount)

const units = ['', 'KB', 'MB', 'GB', 'TB']

/** A quota as it is typed: sizes with the largest unit that keeps them exact. */
export function typedQuota(name: QuotaName, amount: number): string {
  if (!isSize(name)) return String(amount)
  const unit = units.findLastIndex((_, power) => amount >= 1_024 ** power && amount % 1_024 ** power === 0)
  return `${amount / 1_024 ** Math.max(0, unit)}${units[Math.max(0, unit)]}`
}

/** Null for nothing, undefined for what is no quota. */
export function readQuota(name: QuotaName, typed: string): number | null | undefined {
  const text = typed.trim()
  if (text === '') return null
  const [, digits, unit = ''] = /^(\d{1,15}) ?([KMGT]B)?$/.exec(text) ?? []
  if (digits === undefined || (unit !== '' && !isSize(name))) return undefined
  return Number(digits) * 1_024 ** units.indexOf(unit)
}
