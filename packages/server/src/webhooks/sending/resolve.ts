import { Resolver } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'

export type Address = { address: string; family: 4 | 6 }

/** Every address that a name has right now. Rejects when it has none. */
export type Resolve = (hostname: string) => { addresses: Promise<Address[]>; cancel(): void }

/** As RFC 8305 waits for the other family; more than its 50 ms, because nobody looks at a page. */
const otherFamilyMs = 250

/*
 * Not dns.lookup: it runs getaddrinfo on four threads that the whole process shares, and four names whose servers do not
 * answer would then hold up every other lane. c-ares waits without a thread. What it does not read is the hosts file, so
 * that is read here, at every look-up, as getaddrinfo does. A new resolver each time reads resolv.conf afresh, too, and can
 * be cancelled alone. Nothing is remembered: a connection is kept for many requests, so look-ups are rare.
 */
export function createResolve({ hostsFile = '/etc/hosts', servers = null as string[] | null } = {}): Resolve {
  return (hostname) => {
    const resolver = new Resolver({ timeout: 2_000, tries: 2 })
    if (servers !== null) resolver.setServers(servers)
    return { addresses: lookUp(resolver, hostsFile, hostname), cancel: () => resolver.cancel() }
  }
}

async function lookUp(resolver: Resolver, hostsFile: string, hostname: string): Promise<Address[]> {
  // A final dot says that the name is whole, as all of ours are: it is the same name.
  const name = hostname.toLowerCase().replace(/\.$/, '')
  const local = await fromHostsFile(hostsFile, name)
  if (local.length > 0) return local
  // RFC 6761: a stub answers for localhost itself and asks nobody.
  if (name === 'localhost' || name.endsWith('.localhost')) {
    return [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ]
  }
  const [v4, v6] = [ask(resolver, 4, hostname), ask(resolver, 6, hostname)]
  const answered = Promise.allSettled([v4, v6])
  // Some name servers never answer for the family that a name does not have. A name with addresses does not wait for them.
  const first = await Promise.any([v4, v6].map(someAddresses)).catch(() => null)
  if (first !== null) return Promise.race([answered.then(found), sleep(otherFamilyMs, first, { ref: false })])
  const [four] = await answered
  if (four.status === 'rejected') throw four.reason
  return []
}

const found = (answers: readonly PromiseSettledResult<Address[]>[]): Address[] =>
  answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))

async function someAddresses(answer: Promise<Address[]>): Promise<Address[]> {
  const addresses = await answer
  if (addresses.length === 0) throw new Error('no address')
  return addresses
}

const ask = (resolver: Resolver, family: 4 | 6, hostname: string): Promise<Address[]> =>
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
