/** What pages keep in the address, so that a filtered list can be shared and the back button works. */
type Raw = Record<string, unknown>

const text = (raw: unknown): string | undefined => {
  const value = typeof raw === 'number' ? String(raw) : raw
  return typeof value === 'string' && value !== '' ? value : undefined
}

const timestamp = (raw: unknown): string | undefined =>
  typeof raw === 'string' && !Number.isNaN(Date.parse(raw)) ? raw : undefined

const oneOf =
  <const T extends string>(...values: readonly T[]) =>
  (raw: unknown): T | undefined =>
    values.find((value) => value === raw)

const ranges = ['1h', '24h', '7d', '30d'] as const
export type Range = (typeof ranges)[number]

const hours: Record<Range, number> = { '1h': 1, '24h': 24, '7d': 168, '30d': 720 }

export const rangeMs = (range: Range): number => hours[range] * 3_600_000

/** Ids of events from outside are chosen there. */
export const eventIdPattern = /^[\w:-]{1,128}$/

const matching = (pattern: RegExp) => (raw: unknown) => {
  const value = text(raw)
  return value !== undefined && pattern.test(value) ? value : undefined
}

const readStatus = oneOf('succeeded', 'failed', 'sending', 'interrupted')
const readRange = oneOf(...ranges)

export type DeliverySearch = {
  webhook?: string | undefined
  status?: ReturnType<typeof readStatus>
  type?: string | undefined
  /** The HTTP status of the answer: such as 500, 4xx or none. */
  answer?: string | undefined
  error?: string | undefined
  event?: string | undefined
  group?: 'event' | undefined
  /** What the charts show, and the list unless a time was chosen. */
  range?: Range | undefined
  since?: string | undefined
  until?: string | undefined
  /** The attempt that is open beside the list. */
  delivery?: string | undefined
}

export const readDeliverySearch = (raw: Raw): DeliverySearch => ({
  webhook: text(raw.webhook),
  status: readStatus(raw.status),
  type: text(raw.type),
  answer: matching(/^([1-5]\d\d|[1-5]xx|none)$/)(raw.answer),
  error: matching(/^[a-z_]+$/)(raw.error),
  event: matching(eventIdPattern)(raw.event),
  group: oneOf('event')(raw.group),
  range: readRange(raw.range),
  since: timestamp(raw.since),
  until: timestamp(raw.until),
  delivery: text(raw.delivery),
})

export type KeySearch = { status?: 'all' | undefined }

export const readKeySearch = (raw: Raw): KeySearch => ({ status: oneOf('all')(raw.status) })

export type EventSearch = { type?: string | undefined; range?: Range | undefined }

export const readEventSearch = (raw: Raw): EventSearch => ({ type: text(raw.type), range: readRange(raw.range) })

export type AuditSearch = { action?: string | undefined; actor?: string | undefined; range?: Range | undefined }

export const readAuditSearch = (raw: Raw): AuditSearch => ({
  action: text(raw.action),
  actor: text(raw.actor),
  range: readRange(raw.range),
})
