/*
 * What callers and receivers saw of an installation while its PostgreSQL failed over, what its tables say afterwards, and the
 * comparison of both. Times are those of this process (`performance.now()`).
 */

export type History = {
  /** Events whose report was answered 202. `sentAtMs`: the first request; those answered 503 are repeated. */
  accepted: { orgId: string; eventId: string; sentAtMs: number; atMs: number }[]
  /** Keys whose creation was answered 201. `revokeSentAtMs`: the first request to revoke; `revokedAtMs`: the answer 204. */
  keys: { id: string; revokeSentAtMs: number | null; revokedAtMs: number | null }[]
  /** Requests with a key that were answered 200 or 401. */
  uses: { keyId: string; sentAtMs: number; answeredAtMs: number; isAccepted: boolean }[]
  /** Requests that receivers got. `delivery` names the webhook and the event. */
  received: Request[]
  /** Answers that are neither success nor 503, and connections that a Keyhook process closed without an answer. */
  unexpected: string[]
}

type Request = {
  delivery: string
  signature: string
  timestamp: string
  isSigned: boolean
  /** The event's number in its organization. */
  sequence: number
  atMs: number
}

export const emptyHistory = (): History => ({ accepted: [], keys: [], uses: [], received: [], unexpected: [] })

export type Stored = {
  events: { orgId: string; id: string; sequence: number }[]
  /** The names of the webhooks that get every event of an organization. */
  webhooks: { orgId: string; name: string }[]
  /** `signature` is null if the dispatcher died before it knew the outcome; the time is known even then. */
  attempts: { delivery: string; attempt: number; signature: string | null; timestamp: string }[]
}

export const deliveryOf = (webhook: string, eventId: string): string => `${webhook} ${eventId}`

/** Everything that was promised and does not hold, as lines for a person. */
export const findViolations = (history: History, stored: Stored): string[] => [
  ...history.unexpected,
  ...lostEvents(history, stored),
  ...undelivered(history, stored),
  ...gaps(stored),
  ...otherNumbers(history, stored),
  ...unrecordedAttempts(history, stored),
  ...wrongKeyAnswers(history),
]

function lostEvents({ accepted }: History, { events }: Stored): string[] {
  const kept = new Set(events.map(({ orgId, id }) => `${orgId} ${id}`))
  return accepted
    .filter(({ orgId, eventId }) => !kept.has(`${orgId} ${eventId}`))
    .map(({ eventId }) => `event ${eventId} was accepted and does not exist`)
}

/** Also events that were stored and never acknowledged: whatever exists is delivered. */
function undelivered({ received, accepted }: History, { events, webhooks }: Stored): string[] {
  const seen = new Set(received.map(({ delivery }) => delivery))
  const promised = [...events, ...accepted.map(({ orgId, eventId }) => ({ orgId, id: eventId }))]
  const missing = promised.flatMap(({ orgId, id }) =>
    webhooks
      .filter((webhook) => webhook.orgId === orgId && !seen.has(deliveryOf(webhook.name, id)))
      .map(({ name }) => `event ${id} did not reach webhook ${name}`),
  )
  return [...new Set(missing)]
}

function gaps({ events }: Stored): string[] {
  return [...Map.groupBy(events, ({ orgId }) => orgId)].flatMap(([orgId, own]) =>
    own
      .map(({ sequence }) => sequence)
      .toSorted((a, b) => a - b)
      .flatMap((sequence, i) => (sequence === i + 1 ? [] : [`${orgId}: event ${i + 1} has the number ${sequence}`])),
  )
}

/** A number that receivers were told stays the event's. */
function otherNumbers({ received }: History, { events, webhooks }: Stored): string[] {
  const numbers = new Map<string, number>()
  for (const { orgId, id, sequence } of events) {
    for (const { name } of webhooks.filter((webhook) => webhook.orgId === orgId)) {
      numbers.set(deliveryOf(name, id), sequence)
    }
  }
  return received
    .filter(({ delivery, sequence }) => numbers.has(delivery) && numbers.get(delivery) !== sequence)
    .map(({ delivery, sequence }) => `${delivery}: was sent with the number ${sequence}`)
}

function unrecordedAttempts({ received }: History, { attempts }: Stored): string[] {
  const recorded = Map.groupBy(attempts, ({ delivery }) => delivery)
  return [...Map.groupBy(received, ({ delivery }) => delivery)].flatMap(([delivery, requests]) => {
    const rows = recorded.get(delivery) ?? []
    const few = requests.length > rows.length
    const problems = few ? [`${delivery}: ${requests.length} requests and ${rows.length} recorded attempts`] : []
    for (const { signature, timestamp, isSigned } of requests) {
      if (!isSigned) problems.push(`${delivery}: the signature is wrong`)
      const isRecorded = rows.some((row) =>
        row.signature === null ? row.timestamp === timestamp : row.signature === signature,
      )
      if (!isRecorded) problems.push(`${delivery}: no recorded attempt has the signature ${signature}`)
    }
    rows
      .toSorted((a, b) => a.attempt - b.attempt)
      .forEach(({ attempt }, i) => {
        if (attempt !== i + 1) problems.push(`${delivery}: attempt ${i + 1} has the number ${attempt}`)
      })
    return problems
  })
}

function wrongKeyAnswers({ keys, uses }: History): string[] {
  const byId = new Map(keys.map((key) => [key.id, key]))
  return uses.flatMap(({ keyId, sentAtMs, answeredAtMs, isAccepted }) => {
    const key = byId.get(keyId)
    if (key === undefined) return []
    if (isAccepted && key.revokedAtMs !== null && sentAtMs > key.revokedAtMs) {
      return [
        `key ${keyId} was accepted ${Math.round(sentAtMs - key.revokedAtMs)} ms after its revocation was answered`,
      ]
    }
    const wasRevoking = key.revokeSentAtMs !== null && answeredAtMs >= key.revokeSentAtMs
    return isAccepted || wasRevoking ? [] : [`key ${keyId} was refused although nobody had revoked it`]
  })
}
