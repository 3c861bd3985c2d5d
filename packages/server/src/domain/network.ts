import ipaddr from 'ipaddr.js'

/** A parsed CIDR network. */
export type Network = [address: ipaddr.IPv4 | ipaddr.IPv6, bits: number]

/** Full notation only: short or octal forms could mean another address than intended (10/8 as 0.0.0.10/8). */
export const isAddress = (text: string): boolean =>
  ipaddr.IPv4.isValidFourPartDecimal(text) || (/^[0-9a-f:.]+$/i.test(text) && ipaddr.IPv6.isValid(text))

export function readNetwork(text: string): Network | null {
  const [, address, bits] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? []
  if (address === undefined || bits === undefined || !isAddress(address)) return null
  const network = ipaddr.parse(address)
  return Number(bits) <= (network.kind() === 'ipv4' ? 32 : 128) ? [network, Number(bits)] : null
}
