import type { KeyLifetime } from '@keyhook/client'
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

/** The lower one of the limits of the organization and of the operator; null without a limit. */
export const daysMaxOf = (lifetime: KeyLifetime | undefined): number | null => {
  const limits = [lifetime?.days_max, lifetime?.operator_days_max].filter((days) => days != null)
  return limits.length === 0 ? null : Math.min(...limits)
}

export const refreshKeys = (organization: string): Promise<void> =>
  queryClient.invalidateQueries({ queryKey: [organization, 'keys'] })
