import { queryOptions } from '@tanstack/react-query'
import { client, queryClient } from './client.ts'

export const keyQuery = (organization: string, id: string) =>
  queryOptions({
    queryKey: [organization, 'keys', id],
    queryFn: ({ signal }) => client.keys.get(id, { organization, signal }),
  })

/** How long new keys may last. */
export const keyLifetimeQuery = (organization: string) =>
  queryOptions({
    queryKey: [organization, 'key-lifetime'],
    queryFn: ({ signal }) => client.keys.lifetime({ organization, signal }),
  })

export const refreshKeys = (organization: string): Promise<void> =>
  queryClient.invalidateQueries({ queryKey: [organization, 'keys'] })
