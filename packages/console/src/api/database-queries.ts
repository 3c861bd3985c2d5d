import type { Database } from '@keyhook/client'
import { queryOptions } from '@tanstack/react-query'
import { client, queryClient } from './client.ts'

const isBusy = ({ status }: Database): boolean => status === 'provisioning' || status === 'deleting'

/** All databases; asked again often while one of them changes. */
export const databasesQuery = (organization: string) =>
  queryOptions({
    queryKey: [organization, 'databases', 'all'],
    queryFn: ({ signal }) => client.databases.list({ organization, signal }).toArray(),
    refetchInterval: ({ state }) => (state.data?.some(isBusy) ? 1_000 : 5_000),
  })

export const databaseQuery = (organization: string, id: string) =>
  queryOptions({
    queryKey: [organization, 'databases', id],
    queryFn: ({ signal }) => client.databases.get(id, { organization, signal }),
    refetchInterval: ({ state }) => (state.data && isBusy(state.data) ? 1_000 : 5_000),
  })

/** Its size and connections, which its node measures every few seconds. */
export const databaseStatsQuery = (organization: string, { id, status }: Database) =>
  queryOptions({
    queryKey: [organization, 'database-stats', id],
    queryFn: ({ signal }) => client.databases.stats(id, { organization, signal }),
    enabled: status === 'available',
    refetchInterval: 5_000,
  })

export const refreshDatabases = (organization: string): Promise<void> =>
  queryClient.invalidateQueries({ queryKey: [organization, 'databases'] })
