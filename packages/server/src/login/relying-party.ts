import { isIP } from 'node:net'

/** The one address at which passkeys work. WebAuthn calls `id` the RP ID: the host that they belong to. */
export type RelyingParty = { id: string; origin: string; isPublic: boolean; consoleUrl: string }

/**
 * The address of the installation, or this server on the machine of the browser. The port has to be ours, and not that of the Host
 * header: a program at another port of localhost could otherwise show its own page and pass on the answer.
 */
export function relyingPartyOf(publicUrl: string | null, port: number): RelyingParty {
  const isPublic = publicUrl !== null && isSuitable(publicUrl)
  const address = isPublic ? publicUrl : `http://localhost:${port}`
  const { hostname, origin } = new URL(address)
  return { id: hostname, origin, isPublic, consoleUrl: `${address}/console/` }
}

/** Why there are no passkeys on a page of this origin, in words for whoever sees it; null if there are. */
export function passkeysMissing(party: RelyingParty, origin: string): string | null {
  if (origin === party.origin) return null
  if (!isSuitable(origin))
    return `Passkeys need HTTPS with a domain name, or http://localhost; this page is open at ${origin}.`
  if (party.isPublic) return `Passkeys work at ${party.origin}; this page is open at ${origin}.`
  return `Passkeys need KEYHOOK_PUBLIC_URL: the operator sets it to the address of the console, and this page is open at ${origin}.`
}

/** Where the same person finds the console with passkeys. Another machine's localhost is not ours. */
export function addressWithPasskeys(party: RelyingParty, origin: string): string | null {
  return party.isPublic || /^https?:\/\/(127\.|\[::1\])/.test(origin) ? party.consoleUrl : null
}

/** Browsers offer passkeys in secure contexts only, and no IP address can be an RP ID (W3C Web Authentication, 5.1.2). */
function isSuitable(address: string): boolean {
  const url = URL.parse(address)
  if (url === null) return false
  const { protocol, hostname } = url
  if (hostname === 'localhost') return true
  return protocol === 'https:' && isIP(hostname) === 0 && !hostname.startsWith('[')
}
