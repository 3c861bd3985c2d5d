/** `isSecure`: TLS from the first byte, and not after STARTTLS. */
export type MailServer = {
  host: string
  port: number
  isSecure: boolean
  login: { user: string; pass: string } | null
}

export type MailFrom = { name: string; address: string }

/** smtp://user:password@host:587 or smtps://host; null if it is neither. */
export function readMailServer(text: string): MailServer | null {
  const url = URL.parse(text)
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '' || /[\s?#]/.test(text)) return null
  if (url.pathname !== '' && url.pathname !== '/') return null
  if ((url.username === '') !== (url.password === '')) return null
  const isSecure = url.protocol === 'smtps:'
  const port = url.port === '' ? (isSecure ? 465 : 587) : Number(url.port)
  try {
    const login =
      url.username === '' ? null : { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) }
    return { host: url.hostname.replace(/^\[|\]$/g, ''), port, isSecure, login }
  } catch {
    // A percent sign that encodes nothing.
    return null
  }
}

/** `keyhook@example.com` or `Keyhook <keyhook@example.com>`; null if it is neither. */
export function readMailFrom(text: string): MailFrom | null {
  const [, name = '', named, bare] = /^(?:([^<>"\p{Cc}]*)<([^<>]+)>|([^<>]+))$/u.exec(text.trim()) ?? []
  const address = named ?? bare ?? ''
  return isMailAddress(address) ? { name: name.trim(), address } : null
}

/** Stricter than what users may have: mail servers disagree about quoted parts, and a comma could begin another address. */
export const isMailAddress = (text: string): boolean =>
  /^[^\s@"(),:;<>[\\\]\p{Cc}]+@[^\s@"(),:;<>[\\\]\p{Cc}]+$/u.test(text)
