import { Resolver } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'
import type { Address, Resolve } from './http1/client.ts'

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
