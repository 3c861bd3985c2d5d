import { isIP, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A parsed CIDR network. */
export type Network = [address: ipaddr.IPv4 | ipaddr.IPv6, bits: number]

/** Full notation only: short or octal forms could mean another address than intended (10/8 as 0.0.0.10/8, ::010.0.0.1). */
export const isAddress = (text: string): boolean =>
  ipaddr.IPv4.isValidFourPartDecimal(text) || (/^[0-9a-f:.]+$/i.test(text) && ipaddr.IPv6.isValid(text) && isIPv6(text))

export function readNetwork(text: string): Network | null {
  const [, address, bits] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? []
  if (address === undefined || bits === undefined || !isAddress(address)) return null
  const network = ipaddr.parse(address)
  return Number(bits) <= (network.kind() === 'ipv4' ? 32 : 128) ? [network, Number(bits)] : null
}

/** By the list: reading a network takes 1 to 4 us. No `BlockList` of Node: it takes 2 KB for a network, which no garbage collection sees. */
const parsedLists = new WeakMap<readonly string[], Network[]>()

/** Whether an address is in one of these CIDRs. An IPv4 address in its IPv6 form counts as IPv4. */
export function isInNetworks(address: string, networks: readonly string[]): boolean {
  if (isIP(address) === 0) return false
  let parsed = parsedLists.get(networks)
  if (parsed === undefined) {
    parsed = networks.map((network) => ipaddr.parseCIDR(network))
    parsedLists.set(networks, parsed)
  }
  const one = ipaddr.process(address)
  return parsed.some(([network, bits]) => network.kind() === one.kind() && one.match([network, bits]))
}

/** What counts as one client: an IPv6 client has a whole /64 of addresses. */
export function clientNetwork(address: string): string {
  if (!ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  return parsed.kind() === 'ipv6' ? (parsed as ipaddr.IPv6).parts.slice(0, 4).join(':') : parsed.toString()
}

/** Whether every address of the first CIDR is in the second. */
export function isNetworkWithin(inner: string, outer: string): boolean {
  const [address, bits] = ipaddr.parseCIDR(inner)
  const [around, bitsAround] = ipaddr.parseCIDR(outer)
  return address.kind() === around.kind() && bits >= bitsAround && address.match([around, bitsAround])
}

/** What is wrong with an OpenID Connect issuer URL, or null. The text is for the operator who set it. */
export function issuerUrlProblem(url: string): string | null {
  const parsed = URL.parse(url)
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) return 'is not an https URL'
  // The parser drops white space, but the `iss` of a token is compared with the exact text.
  if (/\s/.test(url)) return 'contains white space'
  if (parsed.username !== '' || parsed.password !== '') return 'contains a user name or password'
  if (/[?#]/.test(url)) return 'contains a query or a fragment, which OpenID Connect does not allow'
  if (!isPrivateChannel(parsed)) return 'must use https unless its host is this machine'
  return null
}

/** Keys sent without TLS could be replaced by an attacker, except on this machine. */
export const isPrivateChannel = (url: URL): boolean =>
  url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))

// The URL parser has normalised IPv4 addresses, so `127.example.com` does not match.
export const isLoopback = (hostname: string): boolean =>
  hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
