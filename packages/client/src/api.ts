import { readJson } from './json.ts'
import { createList, type List, type PageOptions } from './list.ts'
import type { CallOptions, Query, Transport } from './transport.ts'

/** Options of calls about one organization. */
export type OrganizationOptions = CallOptions & {
  /** The organization, if it is not the one of the client. */
  organization?: string | undefined
}

export type CreationOptions = OrganizationOptions & {
  /** The same key and content again is answered with the first record, without secrets. Kept for 24 hours. */
  idempotencyKey?: string | undefined
}

/** A creation that shows a secret. With an idempotency key its answer can be a repetition, which does not show it. */
export type SecretCreation<Args extends unknown[], Options, Shown, Repeated> = {
  (...args: [...Args, options?: Options & { idempotencyKey?: undefined }]): Promise<Shown>
  (...args: [...Args, options: Options & { idempotencyKey?: string | undefined }]): Promise<Repeated>
}

export type ListOptions = OrganizationOptions & PageOptions

type Creation = CallOptions & { idempotencyKey?: string | undefined }

/** What the resources are made of: paths, and the kinds of calls. */
export type Api = {
  transport: Transport
  /** A path under `/api/v1/organizations/{org_id}`. */
  published(options: OrganizationOptions, ...segments: string[]): string
  /** A path under `/platform/v1/organizations/{org_id}`. */
  platform(options: OrganizationOptions, ...segments: string[]): string
  get<T>(path: string, options: CallOptions, query?: Query): Promise<T>
  list<T>(path: string, options: CallOptions & PageOptions, query?: Query): List<T>
  /** A creation whose answer holds no secret. It gets an Idempotency-Key, and so it can be repeated. */
  create<T>(path: string, body: object | undefined, options: Creation): Promise<T>
  /** A creation whose answer shows a secret once. It is never repeated: a replay would not show it. */
  createSecret<T>(path: string, body: object | undefined, options: Creation): Promise<T>
  /** A POST that has the same effect however often it is sent. */
  idempotent<T>(path: string, body: object | undefined, options: CallOptions): Promise<T>
  change<T>(method: 'POST' | 'PUT' | 'PATCH', path: string, body: object | undefined, options: CallOptions): Promise<T>
  /** A deletion that answers with the record. */
  remove<T>(path: string, options: CallOptions): Promise<T>
  /** A deletion that answers nothing. */
  erase(path: string, options: CallOptions, query?: Query): Promise<void>
}

export function createApi(transport: Transport, organization?: string): Api {
  function inOrganization(root: string, options: OrganizationOptions, segments: string[]): string {
    const id = options.organization ?? organization
    if (id === undefined) {
      throw new TypeError('Which organization? Pass "organization" to createClient or to this call.')
    }
    return pathOf(root, id, ...segments)
  }

  const post = <T>(path: string, body: object | undefined, options: Creation, isRepeatable: boolean): Promise<T> => {
    const key = options.idempotencyKey ?? (isRepeatable ? randomKey() : undefined)
    const headers = key === undefined ? undefined : { 'idempotency-key': key }
    return read<T>(transport.send({ method: 'POST', path, body, headers, isRepeatable }, options))
  }

  return {
    transport,
    published: (options, ...segments) => inOrganization('/api/v1/organizations', options, segments),
    platform: (options, ...segments) => inOrganization('/platform/v1/organizations', options, segments),
    get: (path, options, query) => read(transport.send({ method: 'GET', path, query, isRepeatable: true }, options)),
    list: (path, { limit, cursor, ...options }, query = {}) =>
      createList(transport, path, { ...query, limit, cursor }, options),
    create: (path, body, options) => post(path, body, options, true),
    createSecret: (path, body, options) => post(path, body, options, false),
    idempotent: (path, body, options) =>
      read(transport.send({ method: 'POST', path, body, isRepeatable: true }, options)),
    change: (method, path, body, options) => read(transport.send({ method, path, body, isRepeatable: false }, options)),
    remove: (path, options) => read(transport.send({ method: 'DELETE', path, isRepeatable: true }, options)),
    async erase(path, options, query) {
      await transport.send({ method: 'DELETE', path, query, isRepeatable: true, absentIsDone: true }, options)
    },
  }
}

const read = async <T>(answer: Promise<{ text: string }>): Promise<T> => readJson<T>((await answer).text)

/** A path of encoded segments. "." and ".." would be resolved into another path. */
export function pathOf(root: string, ...segments: string[]): string {
  for (const segment of segments) {
    if (typeof segment !== 'string' || /^\.{0,2}$/.test(segment)) throw new TypeError(`"${segment}" is not an id`)
  }
  return [root, ...segments.map(encodeURIComponent)].join('/')
}

/** Not `crypto.randomUUID`, which browsers have on secure pages only. */
const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
