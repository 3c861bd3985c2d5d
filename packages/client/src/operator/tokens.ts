import { type Api, pathOf, type SecretCreation } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { CallOptions } from '../transport.ts'
import type { OperatorCreationOptions } from './options.ts'

export type NewOperatorToken = {
  /** What the token is for. */
  name?: string
  /** 12 hours by default. */
  ttl_seconds?: number
}

export type OperatorToken = {
  id: string
  name: string | null
  created_at: string
  expires_at: string
  created_by: string | null
  revoked_at: string | null
}

/** `token` is shown here and never again. */
export type IssuedOperatorToken = OperatorToken & { token: string }

const path = '/operator/v1/tokens'

export const tokens = (api: Api) => ({
  /** Never repeated by itself, because its answer shows the token. */
  create: (async (token: NewOperatorToken, options: OperatorCreationOptions = {}) =>
    api.createSecret(path, token, options)) as SecretCreation<
    [token: NewOperatorToken],
    CallOptions,
    IssuedOperatorToken,
    OperatorToken & { token?: string }
  >,

  list: (options: CallOptions & PageOptions = {}): List<OperatorToken> => api.list(path, options),

  /** The token is refused from now on. */
  revoke: async (id: string, options: CallOptions = {}): Promise<void> => api.erase(pathOf(path, id), options),
})
