import { createClient, KeyhookError } from '@keyhook/client'
import { MutationCache, QueryCache, QueryClient, queryOptions } from '@tanstack/react-query'
import { serverUrl } from '../address.ts'
import { isServerAway, serverIsBack } from './server-away.ts'
import { fetchSession, forgetToken, organizationToken } from './session.ts'

export const client = createClient({ url: serverUrl, token: organizationToken, retries: 1 })

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: fetchSession,
  staleTime: 60_000,
  // Roles change while a page is open, and then other actions are offered.
  refetchInterval: 60_000,
})

/** A refused token means that the session has ended: asking for it again shows the sign-in page. */
function onError(error: unknown): void {
  if (!(error instanceof KeyhookError) || error.status !== 401) return
  forgetToken()
  void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey })
}

export const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      if (isServerAway(error)) void serverIsBack().then(() => queryClient.invalidateQueries())
      else if (query.queryKey[0] !== 'session') onError(error)
    },
  }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: { queries: { retry: false, staleTime: 2_000 } },
})
