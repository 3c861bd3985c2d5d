import { randomBytes } from 'node:crypto'

/** In the format of Standard Webhooks. The specified signature uses the whole text as its key, prefix included. */
export const mintWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** How long a pause lasts, and at most. Events of a paused webhook wait however long, so the limit is for their receivers. */
export const pauseMsDefault = 7 * 86_400_000
export const pauseMsMax = 30 * 86_400_000

/** How long two secrets are valid: at most and before a switch, and after it. */
export const overlapSecondsMax = 30 * 86_400
export const afterSwitchSecondsDefault = 86_400

/** Deliveries per second. */
export const rateLimitMin = 0.1
export const rateLimitMax = 1_000

/** The problem with a webhook URL, or null. Its address is checked when it is used. */
export function webhookUrlProblem(text: string): string | null {
  // The URL parser silently removes tabs, newlines and outer spaces, so we would call another URL than was given.
  // Invisible and bidirectional characters show one address and mean another (RFC 3987, 4.1).
  if (/[\s\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text))
    return 'must not contain spaces, control or invisible characters'
  const url = URL.parse(text)
  if (url === null) return 'must be an absolute URL, such as https://example.com/hooks'
  if (url.protocol !== 'https:') return 'must use the https:// scheme'
  // It also accepts three slashes and backslashes, and removes an empty user name.
  if (!/^https:\/\/[^/]/i.test(text)) return 'must start with https:// and a host name'
  if (text.includes('\\')) return 'must not contain a backslash'
  if (/^https:\/\/[^/?#]*@/i.test(text)) return 'must not contain a user name or password'
  if (url.hash !== '' || text.includes('#')) return 'must not contain a fragment (#…), which is never sent'
  return null
}
