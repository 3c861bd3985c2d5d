import ipaddr from 'ipaddr.js'
import type { Network } from '../../domain/network.ts'

/** True when a delivery may be sent to this address. */
export type AddressGuard = (address: string) => boolean

/** All that IANA has assigned of IPv6 for hosts. A network may route the rest anywhere. */
const globalUnicast: Network = ipaddr.parseCIDR('2000::/3')

/** Special-purpose networks that ipaddr.js calls unicast (IANA registries, RFC 6890 and its updates). */
const forbiddenNetworks = [
  '192.0.0.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '240.0.0.0/4',
  '2001::/23',
  '2001:db8::/32',
  '3fff::/20',
  // Azure's platform services: a public address that is reachable from inside its networks only.
  '168.63.129.16/32',
].map((cidr) => ipaddr.parseCIDR(cidr))

/**
 * Public unicast only, unless the operator allows a network. An IPv6 address that embeds an IPv4 address (mapped, compatible, NAT64,
 * 6to4, Teredo) leads there, so the embedded address is checked; an allowed network may be written either way.
 */
export function createAddressGuard(allowed: readonly Network[]): AddressGuard {
  return (text) => {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.parse(text)
    const embedded = embeddedAddresses(address)
    if (embedded.length > 0) return embedded.every((inner) => permitted(inner, allowed)) || inside(address, allowed)
    return permitted(address, allowed)
  }
}

const permitted = (address: ipaddr.IPv4 | ipaddr.IPv6, allowed: readonly Network[]): boolean =>
  isPublic(address) || inside(address, allowed)

const isPublic = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  address.range() === 'unicast' &&
  (address.kind() === 'ipv4' || inside(address, [globalUnicast])) &&
  !inside(address, forbiddenNetworks)

const inside = (address: ipaddr.IPv4 | ipaddr.IPv6, networks: readonly Network[]): boolean =>
  networks.some(([network, bits]) => network.kind() === address.kind() && address.match([network, bits] as never))

/** Every IPv4 address that packets to this address may reach. */
function embeddedAddresses(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4[] {
  if (address.kind() === 'ipv4') return []
  const bytes = address.toByteArray()
  const at = (start: number, flip = 0): ipaddr.IPv4 =>
    new ipaddr.IPv4(bytes.slice(start, start + 4).map((byte) => byte ^ flip))
  const startsWith = (...prefix: number[]) => prefix.every((byte, i) => bytes[i] === byte)
  const zeros = (from: number, to: number) => bytes.slice(from, to).every((byte) => byte === 0)
  // ::ffff:a.b.c.d, ::ffff:0:a.b.c.d (SIIT) and the old ::a.b.c.d, but not :: and ::1.
  if (zeros(0, 10) && bytes[10] === 0xff && bytes[11] === 0xff) return [at(12)]
  if (zeros(0, 8) && bytes[8] === 0xff && bytes[9] === 0xff && zeros(10, 12)) return [at(12)]
  if (zeros(0, 12) && !(zeros(12, 15) && bytes[15]! <= 1)) return [at(12)]
  if (startsWith(0x00, 0x64, 0xff, 0x9b) && zeros(4, 12)) return [at(12)]
  if (startsWith(0x20, 0x02)) return [at(2)]
  // Teredo: the server's address, and the client's with inverted bits.
  if (startsWith(0x20, 0x01, 0x00, 0x00)) return [at(4), at(12, 0xff)]
  return []
}
