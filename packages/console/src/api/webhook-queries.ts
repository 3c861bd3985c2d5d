import type { EventTypeRecord, Webhook } from '@keyhook/client'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { client, queryClient } from './client.ts'

export const webhookQuery = (organization: string, id: string) =>
  queryOptions({
    queryKey: [organization, 'webhooks', id],
    queryFn: ({ signal }) => client.webhooks.get(id, { organization, signal }),
    refetchInterval: 5_000,
  })

/** When webhooks that fail are suspended. */
export const webhookSuspensionQuery = (organization: string) =>
  queryOptions({
    queryKey: [organization, 'webhook-suspension'],
    queryFn: ({ signal }) => client.webhooks.suspension({ organization, signal }),
  })

/** All webhooks: for filters and names. */
export const webhooksQuery = (organization: string) =>
  queryOptions({
    queryKey: [organization, 'webhooks', 'all'],
    queryFn: ({ signal }): Promise<Webhook[]> => client.webhooks.list({ organization, signal }).toArray(),
    refetchInterval: 5_000,
  })

export const eventTypesQuery = (organization: string) =>
  queryOptions({
    queryKey: [organization, 'event-types'],
    queryFn: ({ signal }): Promise<EventTypeRecord[]> => client.eventTypes.list({ organization, signal }).toArray(),
    staleTime: 300_000,
  })

export const useEventTypes = (organization: string): EventTypeRecord[] =>
  useQuery(eventTypesQuery(organization)).data ?? []

export const refreshWebhooks = (organization: string): Promise<void> =>
  queryClient.invalidateQueries({ queryKey: [organization, 'webhooks'] })
