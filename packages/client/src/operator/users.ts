import { type Api, pathOf } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { Confirmation, Deletion } from '../resources/organizations.ts'
import type { CallOptions } from '../transport.ts'
import type { OperatorCreationOptions } from './options.ts'

export type NewUser = {
  email: string
  name?: string
  /** The `sub` of this person at your OpenID issuer. */
  subject?: string
}

export type User = {
  id: string
  /** Null for a service member. */
  email: string | null
  name: string | null
  subject: string | null
  /** False for a user who joined with an invitation link, until the address is confirmed. */
  verified: boolean
  /** Whether it is a service member, which no person can log in as. */
  service: boolean
  created_at: string
}

const path = '/operator/v1/users'

export const users = (api: Api) => ({
  create: async (user: NewUser, options: OperatorCreationOptions = {}): Promise<User> =>
    api.create(path, user, options),

  list: ({ email, ...options }: CallOptions & PageOptions & { email?: string } = {}): List<User> =>
    api.list(path, options, { email }),

  get: async (id: string, options: CallOptions = {}): Promise<User> => api.get(pathOf(path, id), options),

  /** Confirms that the address is theirs: the user may then belong to other organizations too. */
  verify: async (id: string, options: CallOptions = {}): Promise<User> =>
    api.idempotent(pathOf(path, id, 'verify'), undefined, options),

  /** The user leaves all organizations, and the user's keys are refused from now on. */
  delete: async (id: string, options: CallOptions = {}): Promise<void> => api.erase(pathOf(path, id), options),

  /** The same, and the personal data of the user is erased. */
  erase: async (id: string, confirmation: Confirmation, options: CallOptions = {}): Promise<Deletion> =>
    api.idempotent(pathOf(path, id, 'deletion'), confirmation, options),
})
