import { queryOptions } from '@tanstack/react-query'
import { client } from './client.ts'

/** One event with all its attempts; asked again while any of them is not finished. */
export const eventQuery = (organization: string, id: string) =>
  queryOptions({
    queryKey: [organization, 'events', id],
    queryFn: ({ signal }) => client.events.get(id, { organization, signal }),
    refetchInterval: ({ state }) =>
      state.data?.delivered_to.some(({ status }) => status === 'waiting' || status === 'sending') ? 2_000 : 15_000,
  })
