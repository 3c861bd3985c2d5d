/** The problem with an e-mail address that is a label, or null. */
export const emailProblem = (text: string): string | null =>
  /^[^\s@]+@[^\s@]+$/.test(text) ? null : 'must be an e-mail address'

/** The problem with a display name, or null. Such names are shown in terminals, logs and pages. */
export function labelProblem(text: string): string | null {
  // U+2800 is Braille without dots: a letter in Unicode, but invisible.
  if (/^[\s\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text)) return 'must not be blank'
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) return 'must not contain control characters or broken Unicode'
  // These reverse the rest of the line in a terminal. Marks that languages need (U+200C to U+200F) are allowed.
  if (/[\u202a-\u202e\u2066-\u2069]/u.test(text)) return 'must not contain characters that turn the direction of text'
  return null
}

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
