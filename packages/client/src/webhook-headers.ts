/** `Headers`, the header object of a Node request, or an array of pairs. */
export type HeadersLike =
  | { get(name: string): string | null | undefined }
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | readonly (readonly [string, string])[]

/** The value of a header, whatever the case of its name; null if it is missing. */
export function readHeader(headers: HeadersLike, name: string): string | null {
  const wanted = name.toLowerCase()
  if ('get' in headers && typeof headers.get === 'function') return headers.get(wanted) ?? null
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers)
  const values = pairs.filter(([one, value]) => one.toLowerCase() === wanted && value !== undefined)
  return values.length === 0 ? null : values.flatMap(([, value]) => value).join(', ')
}

export type DeliverySequence = {
  /** The event's position in its organization. */
  sequence: number
  /** The position of the event that was sent to this webhook before it; null for the first one. */
  previous: number | null
}

/**
 * The numbers that show a gap: `previous` is greater than the last number you saw when you have missed an event. They are not
 * signed, so use them only to decide whether to call `events.reconcile`. Null for a test event.
 */
export function readSequence(headers: HeadersLike, service = 'Service'): DeliverySequence | null {
  const sequence = readHeader(headers, `X-${service}-Sequence`)
  if (sequence === null) return null
  const previous = readHeader(headers, `X-${service}-Previous-Sequence`)
  return { sequence: Number(sequence), previous: previous === null ? null : Number(previous) }
}
