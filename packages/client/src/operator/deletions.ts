import { type Api, pathOf } from '../api.ts'
import type { List, PageOptions } from '../list.ts'
import type { Deletion } from '../resources/organizations.ts'
import type { CallOptions } from '../transport.ts'

const path = '/operator/v1/deletions'

export const deletions = (api: Api) => ({
  list: (options: CallOptions & PageOptions = {}): List<Deletion> => api.list(path, options),

  /** How far the erasing is. */
  get: async (id: string, options: CallOptions = {}): Promise<Deletion> => api.get(pathOf(path, id), options),
})
