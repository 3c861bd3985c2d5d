import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Agent, fetch } from 'undici'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

/**
 * A real Kubernetes API server on a real etcd, if its program is here: KEYHOOK_TEST_KUBE_APISERVER names it, and
 * `packages/server/test/kit/build-kube-apiserver` builds it with Go. There are no controllers and no kubelets, so nothing runs.
 */
const program = process.env.KEYHOOK_TEST_KUBE_APISERVER || null
const etcd = ['/usr/bin/etcd', '/usr/local/bin/etcd'].find(existsSync)
export const kubernetesMissing =
  program === null
    ? 'no Kubernetes API server: run packages/server/test/kit/build-kube-apiserver and set KEYHOOK_TEST_KUBE_APISERVER'
    : etcd === undefined
      ? 'no etcd: install the package etcd-server'
      : null

// biome-ignore lint/suspicious/noExplicitAny: resources of every kind, which tests read freely.
export type AnyResource = any

export type KubeApiServer = Awaited<ReturnType<typeof startKubeApiServer>>

export async function startKubeApiServer() {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-kube-'))
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()]
  const etcdUrl = `http://127.0.0.1:${etcdPort}`
  const peerUrl = `http://127.0.0.1:${peerPort}`
  const store = run(etcd!, [
    ...['--data-dir', join(folder, 'etcd'), '--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `default=${peerUrl}`],
  ])
  const tokens = { admin: randomBytes(16).toString('hex'), keyhook: randomBytes(16).toString('hex') }
  await writeFile(
    join(folder, 'tokens.csv'),
    `${tokens.admin},admin,1,system:masters\n${tokens.keyhook},keyhook,2,keyhook\n`,
  )
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  await writeFile(join(folder, 'sa.key'), privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
  await writeFile(join(folder, 'sa.pub'), publicKey.export({ format: 'pem', type: 'spki' }))
  const start = () =>
    run(program!, [
      `--etcd-servers=${etcdUrl}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${join(folder, 'certificates')}`,
      '--service-cluster-ip-range=10.0.0.0/24',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${join(folder, 'sa.pub')}`,
      `--service-account-signing-key-file=${join(folder, 'sa.key')}`,
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--disable-admission-plugins=ServiceAccount',
      '--endpoint-reconciler-type=none',
      // A watch that asks for a version from before a compaction is refused with 410.
      '--etcd-compaction-interval=0',
      '--watch-cache=false',
    ])
  let server = start()
  const url = `https://127.0.0.1:${port}`
  let dispatcher: Agent | undefined

  async function admin(method: string, path: string, body?: unknown): Promise<AnyResource> {
    const isYaml = typeof body === 'string'
    const type = isYaml ? 'yaml' : method === 'PATCH' ? 'merge-patch+json' : 'json'
    dispatcher ??= new Agent({ connect: { ca: await authority() } })
    const response = await fetch(`${url}${path}`, {
      method,
      dispatcher,
      headers: { authorization: `Bearer ${tokens.admin}`, 'content-type': `application/${type}` },
      ...(body !== undefined && { body: isYaml ? body : JSON.stringify(body) }),
    })
    const answer = (await response.json().catch(() => null)) as AnyResource
    if (!response.ok) {
      throw Object.assign(new Error(`${method} ${path}: ${answer?.message ?? response.status}`), {
        status: response.status,
      })
    }
    return answer
  }
  const authority = () => readFile(join(folder, 'certificates/apiserver.crt'), 'utf8')

  const untilReady = () =>
    until(() => {
      for (const { child, output } of [store, server]) {
        if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended: ${output()}`)
      }
      return admin('GET', '/api/v1/namespaces/default').then(Boolean, () => false)
    })
  await untilReady()
  const definitions = join(dirname(program!), 'definitions')
  for (const name of await readdir(definitions)) {
    const definition = await readFile(join(definitions, name), 'utf8')
    await admin('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
  }
  for (const path of ['/apis/postgresql.cnpg.io/v1/clusters', '/apis/barmancloud.cnpg.io/v1/objectstores']) {
    await until(() => admin('GET', path).then(Boolean, () => false))
  }

  return {
    url,
    /** Everything is allowed. A body that is a text is YAML; that of a PATCH is a merge patch. */
    admin,
    etcdUrl,
    /** A kubeconfig file for a user, in the same form that operators have. */
    async kubeconfig(user: keyof typeof tokens): Promise<string> {
      const path = join(folder, `${user}.kubeconfig`)
      const cluster = { server: url, 'certificate-authority-data': Buffer.from(await authority()).toString('base64') }
      const config = {
        apiVersion: 'v1',
        kind: 'Config',
        'current-context': 'test',
        clusters: [{ name: 'test', cluster }],
        users: [{ name: user, user: { token: tokens[user] } }],
        contexts: [{ name: 'test', context: { cluster: 'test', user } }],
      }
      await writeFile(path, JSON.stringify(config), { mode: 0o600 })
      return path
    },
    /** SIGKILL, and the same server again when the returned function is called. */
    async kill(): Promise<() => Promise<void>> {
      await server.kill()
      return async () => {
        server = start()
        await untilReady()
      }
    },
    async close() {
      await dispatcher?.close()
      await server.kill()
      await store.kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function run(command: string, options: readonly string[]) {
  const child: ChildProcess = spawn(command, options, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH },
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let last = ''
  const keep = (part: Buffer) => {
    last = (last + part.toString()).slice(-4_000)
  }
  child.stdout!.on('data', keep)
  child.stderr!.on('data', keep)
  return {
    child,
    output: () => last,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
