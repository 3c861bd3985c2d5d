import { Resolver } from 'node:dns'
import { readFile } from 'node:fs/promises'
import ipaddr from 'ipaddr.js'

export type Address = { address: string; family: 4 | 6 }

/** Every address that a name has right now. Rejects when it has none. */
export type Resolve = (hostname: string) => { addresses: Promise<Address[]>; cancel(): void }

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
  const local = await fromHostsFile(hostsFile, hostname)
  if (local.length > 0) return local
  // RFC 6761: a stub answers for localhost itself and asks nobody.
  if (hostname === 'localhost' || hostname.endsWith('.localhost')) {
    return [
      { address: '127.0.0.1', family: 4 },
      { address: '::1', family: 6 },
    ]
  }
  const [v4, v6] = await Promise.allSettled([ask(resolver, 4, hostname), ask(resolver, 6, hostname)])
  const found = [...(v4.status === 'fulfilled' ? v4.value : []), ...(v6.status === 'fulfilled' ? v6.value : [])]
  if (found.length === 0 && v4.status === 'rejected') throw v4.reason
  return found
}

const ask = (resolver: Resolver, family: 4 | 6, hostname: string): Promise<Address[]> =>
  new Promise((done, fail) => {
    const answer = (error: Error | null, addresses: string[]) =>
      error ? fail(error) : done(addresses.map((address) => ({ address, family })))
    if (family === 4) resolver.resolve4(hostname, answer)
    else resolver.resolve6(hostname, answer)
  })

async function fromHostsFile(path: string, hostname: string): Promise<Address[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split('\n').flatMap((line): Address[] => {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (!names.some((name) => name.toLowerCase() === hostname.toLowerCase())) return []
    if (address === undefined || !ipaddr.isValid(address)) return []
    return [{ address, family: ipaddr.parse(address).kind() === 'ipv4' ? 4 : 6 }]
  })
}
