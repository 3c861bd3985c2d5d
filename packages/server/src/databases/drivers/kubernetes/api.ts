import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeConfig, RequestContext } from '@kubernetes/client-node'
import { fetch } from 'undici'
import { ApiProblem, unreachable } from './problems.ts'

/** A kind of resource, by the part of its address that does not change. */
export type Kind = { apiVersion: string; kind: string; plural: string }

export type Resource = {
  apiVersion?: string
  kind?: string
  metadata: {
    name: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
    resourceVersion?: string
    uid?: string
    deletionTimestamp?: string
  }
}

export type KubernetesApi = ReturnType<typeof createKubernetesApi>

type Aborted = { signal?: AbortSignal }
type Selector = { labels?: string; fields?: string }
type Query = Record<string, string>

const fieldManager = 'keyhook'
const requestMsMax = 30_000
/** The server ends a watch after this, and a connection that died without a word is noticed soon after. */
const watchSeconds = 240
const retryMs = { first: 200, max: 5_000 }
/** An API server that has just started may not know yet who may do what. */
const forbiddenMsMax = 30_000

/** `open` is called once, by the first request: loading the library takes some hundred milliseconds. */
export function createKubernetesApi(namespace: string, open: () => Promise<KubernetesConnection>) {
  let opened: Promise<KubernetesConnection> | undefined
  const connection = () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }
  const pathOf = ({ apiVersion, plural }: Kind, name?: string) => {
    const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    return `${base}/namespaces/${namespace}/${plural}${name === undefined ? '' : `/${name}`}`
  }

  async function send(
    method: 'GET' | 'PATCH' | 'DELETE',
    path: string,
    { query = {}, body, signal }: { query?: Query; body?: unknown; signal: AbortSignal },
  ) {
    const { config, context } = await connection()
    const url = new URL(`${config.getCurrentCluster()?.server}${path}`)
    for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value)
    const request = context(url.toString(), method)
    await config.applySecurityAuthentication(request)
    const headers = {
      ...request.getHeaders(),
      accept: 'application/json',
      ...(body !== undefined && {
        'content-type': method === 'PATCH' ? 'application/apply-patch+yaml' : 'application/json',
      }),
    }
    const dispatcher = request.getDispatcher()
    const response = await fetch(url, {
      method,
      headers,
      signal,
      ...(dispatcher && { dispatcher }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }).catch((error: unknown) => {
      signal.throwIfAborted()
      throw unreachable(error)
    })
    if (response.ok) return response
    throw new ApiProblem(`${method} ${path}`, response.status, await response.text().catch(() => ''))
  }

  async function call<T>(
    method: 'GET' | 'PATCH' | 'DELETE',
    path: string,
    more: { query?: Query; body?: unknown; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    const limit = AbortSignal.timeout(requestMsMax)
    const signal = more.signal === undefined ? limit : AbortSignal.any([more.signal, limit])
    try {
      return (await (await send(method, path, { ...more, signal })).json()) as T
    } catch (error) {
      more.signal?.throwIfAborted()
      throw limit.aborted ? unreachable(error) : error
    }
  }

  const unlessMissing = (error: unknown): null => {
    if (error instanceof ApiProblem && error.isMissing) return null
    throw error
  }

  const get = <T extends Resource>(kind: Kind, name: string, { signal }: Aborted = {}): Promise<T | null> =>
    call<T>('GET', pathOf(kind, name), { signal }).catch(unlessMissing)

  /** The changes of one resource after a version, until the server or the network ends the connection. */
  async function* changes<T>(kind: Kind, name: string, after: string, signal: AbortSignal): AsyncGenerator<T | null> {
    const query = {
      watch: 'true',
      fieldSelector: `metadata.name=${name}`,
      timeoutSeconds: String(watchSeconds),
      resourceVersion: after,
    }
    const limit = AbortSignal.any([signal, AbortSignal.timeout((watchSeconds + 30) * 1_000)])
    const response = await send('GET', pathOf(kind), { query, signal: limit })
    let rest = ''
    const decoder = new TextDecoder()
    for await (const part of response.body!) {
      const lines = (rest + decoder.decode(part as Uint8Array, { stream: true })).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        const { type, object } = JSON.parse(line) as { type: string; object: T }
        // For example 410: the version is so old that the server has forgotten what followed. The caller reads again.
        if (type === 'ERROR') return
        if (type !== 'BOOKMARK') yield type === 'DELETED' ? null : object
      }
    }
  }

  return {
    namespace,
    get,

    async list<T extends Resource>(kind: Kind, { labels, fields }: Selector): Promise<T[]> {
      const query = { ...(labels && { labelSelector: labels }), ...(fields && { fieldSelector: fields }), limit: '500' }
      const items: T[] = []
      for (let next: string | undefined = ''; next !== undefined; ) {
        type Page = { items: T[]; metadata: { continue?: string } }
        const page: Page = await call<Page>('GET', pathOf(kind), {
          query: { ...query, ...(next && { continue: next }) },
        })
        items.push(...page.items)
        next = page.metadata.continue || undefined
      }
      return items
    },

    /** Server-side apply: creates the resource, or changes the fields that are named. An unknown field is an error. */
    apply: <T extends Resource>(of: Kind, resource: T, { signal }: Aborted = {}): Promise<T> =>
      call<T>('PATCH', pathOf(of, resource.metadata.name), {
        query: { fieldManager, fieldValidation: 'Strict', force: 'true' },
        body: { apiVersion: of.apiVersion, kind: of.kind, ...resource },
        signal,
      }),

    /** No such resource is no error. What belongs to it is removed by Kubernetes afterwards. */
    async remove(kind: Kind, name: string): Promise<void> {
      await call('DELETE', pathOf(kind, name), { body: { propagationPolicy: 'Background' } }).catch(unlessMissing)
    },

    /**
     * Returns what `look` makes of the resource as soon as that is not undefined; null stands for a resource that does not exist.
     * It watches, and reads again whenever the watch ends, for whatever reason.
     */
    async watchUntil<T extends Resource, R>(
      kind: Kind,
      name: string,
      look: (resource: T | null) => R | undefined,
      { signal }: { signal: AbortSignal },
    ): Promise<R> {
      let pauseMs = retryMs.first
      let answeredMs = Date.now()
      for (;;) {
        signal.throwIfAborted()
        try {
          const now = await get<T>(kind, name, { signal })
          answeredMs = Date.now()
          const found = look(now)
          if (found !== undefined) return found
          // Without a version, the watch begins with the resource as it is.
          for await (const changed of changes<T>(kind, name, now?.metadata.resourceVersion ?? '', signal)) {
            pauseMs = retryMs.first
            const result = look(changed)
            if (result !== undefined) return result
          }
        } catch (error) {
          signal.throwIfAborted()
          // The API server restarts, or the network fails: what is waited for goes on meanwhile.
          const isForbidden = error instanceof ApiProblem && (error.status === 401 || error.status === 403)
          if (!(isForbidden ? Date.now() - answeredMs < forbiddenMsMax : isPassing(error))) throw error
          pauseMs = Math.min(pauseMs * 2, retryMs.max)
        }
        await sleep(pauseMs, undefined, { signal })
      }
    },
  }
}

/** Connection errors while a watch is read are errors of fetch, and no problem that the API reported. */
const isPassing = (error: unknown): boolean =>
  error instanceof ApiProblem ? error.isPassing : !(error instanceof Error && 'permanent' in error && error.permanent)

export type KubernetesConnection = {
  config: KubeConfig
  context: (url: string, method: 'GET' | 'PATCH' | 'DELETE') => RequestContext
}

/** In a pod, its service account; elsewhere, or if a file is given, a kubeconfig. */
export async function connectToKubernetes(kubeconfig: string | null): Promise<KubernetesConnection> {
  const { HttpMethod, KubeConfig, RequestContext } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  if (kubeconfig === null) config.loadFromCluster()
  else config.loadFromFile(kubeconfig)
  return { config, context: (url, method) => new RequestContext(url, HttpMethod[method]) }
}
