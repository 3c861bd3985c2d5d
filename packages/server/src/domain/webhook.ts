import { randomBytes } from 'node:crypto'

/** Standard Webhooks' form. The text as shown, prefix included, is what signs: nobody has to decode anything. */
export const mintWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** Says what is wrong with a webhook URL, or null. Whether the address may be reached is decided when it is used. */
export function webhookUrlProblem(text: string): string | null {
  // The URL parser drops tabs, newlines and outer spaces in silence; what we would call is then not what was sent.
  // Invisible characters and those that turn the direction of text show one address and mean another (RFC 3987, 4.1).
  if (/[\s\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u.test(text))
    return 'must not contain spaces, control or invisible characters'
  const url = URL.parse(text)
  if (url === null) return 'must be an absolute URL, such as https://example.com/hooks'
  if (url.protocol !== 'https:') return 'must use the https:// scheme'
  // It also takes three slashes for two and backslashes for slashes, and forgets an empty user name.
  if (!/^https:\/\/[^/]/i.test(text)) return 'must start with https:// and a host name'
  if (text.includes('\\')) return 'must not contain a backslash'
  if (/^https:\/\/[^/?#]*@/i.test(text)) return 'must not contain a user name or password'
  if (url.hash !== '' || text.includes('#')) return 'must not contain a fragment (#…), which is never sent'
  return null
}
