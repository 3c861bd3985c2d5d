import { Resolver } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'
import type { Network } from '../../lib/network.ts'
import type { Address, Resolve } from './http1/client.ts'

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

/** As in RFC 8305, but more than its 50 ms: no user waits for a page. */
const otherFamilyMs = 250

/*
 * Not dns.lookup: it runs getaddrinfo on four threads of the whole process, and four names with silent servers would block all other
 * receivers. c-ares needs no thread, but does not read the hosts file, so we do. Nothing is cached: connections are reused, so
 * look-ups are rare; a new resolver for each also reads resolv.conf again and can be cancelled alone.
 */
export function createResolve({ hostsFile = '/etc/hosts', servers = null as string[] | null } = {}): Resolve {
  return (hostname) => {
    const resolver = new Resolver({ timeout: 2_000, tries: 2 })
    if (servers !== null) resolver.setServers(servers)
    return { addresses: lookUp(resolver, hostsFile, hostname), cancel: () => resolver.cancel() }
  }
}

async function lookUp(resolver: Resolver, hostsFile: string, hostname: string): Promise<Address[]> {
  // A final dot marks a fully qualified name, as all of ours are.
  const name = hostname.toLowerCase().replace(/\.$/, '')
  const local = await fromHostsFile(hostsFile, name)
  if (local.length > 0) return local
  // RFC 6761: localhost is answered without a query.
  if (name === 'localhost' || name.endsWith('.localhost')) {
    return [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ]
  }
  const [v4, v6] = [query(resolver, 4, hostname), query(resolver, 6, hostname)]
  const both = Promise.allSettled([v4, v6])
  // Some name servers never answer for a family without addresses. We do not wait long for it once the other has answered.
  const first = await Promise.any([v4, v6].map(someAddresses)).catch(() => null)
  if (first !== null) return Promise.race([both.then(allAddresses), sleep(otherFamilyMs, first, { ref: false })])
  const [four] = await both
  if (four.status === 'rejected') throw four.reason
  return []
}

const allAddresses = (answers: readonly PromiseSettledResult<Address[]>[]): Address[] =>
  answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))

async function someAddresses(answer: Promise<Address[]>): Promise<Address[]> {
  const addresses = await answer
  if (addresses.length === 0) throw new Error('no address')
  return addresses
}

const query = (resolver: Resolver, family: 4 | 6, hostname: string): Promise<Address[]> =>
  new Promise((done, fail) => {
    const answer = (error: Error | null, addresses: string[]) =>
      error ? fail(error) : done(addresses.map((address) => ({ address, family })))
    if (family === 4) resolver.resolve4(hostname, answer)
    else resolver.resolve6(hostname, answer)
  })

async function fromHostsFile(path: string, wanted: string): Promise<Address[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split('\n').flatMap((line): Address[] => {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (!names.some((name) => name.toLowerCase() === wanted)) return []
    if (address === undefined || !ipaddr.isValid(address)) return []
    return [{ address, family: ipaddr.parse(address).kind() === 'ipv4' ? 4 : 6 }]
  })
}
