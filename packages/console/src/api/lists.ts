import type { List } from '@keyhook/client'
import { type QueryKey, useInfiniteQuery } from '@tanstack/react-query'

type ListOptions = { refetchInterval?: number | false; enabled?: boolean; limit?: number }

/** A list of the client, page by page, in the form that `DataTable` takes. */
export function useList<T>(
  queryKey: QueryKey,
  list: (options: { signal: AbortSignal; limit: number }) => List<T>,
  { refetchInterval = false, enabled = true, limit = 50 }: ListOptions = {},
) {
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => list({ signal, limit }).page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    // All pages are read again: of a long list less often.
    refetchInterval: ({ state }) => refetchInterval && refetchInterval * Math.max(1, state.data?.pages.length ?? 1),
    enabled,
  })
  const more = query.hasNextPage
    ? { isLoading: query.isFetchingNextPage, load: () => query.fetchNextPage() }
    : undefined
  return {
    rows: query.data?.pages.flatMap(({ items }) => items),
    error: query.error,
    retry: () => query.refetch(),
    more,
  }
}
