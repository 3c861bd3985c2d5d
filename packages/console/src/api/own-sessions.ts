import { queryOptions } from '@tanstack/react-query'
import { call } from './session.ts'

export type OwnSession = {
  id: string
  current: boolean
  /** How somebody signed in; null if an older version did not note it. */
  way: 'link' | 'passkey' | 'openid' | 'mail' | 'invitation' | null
  address: string | null
  device: string
  created_at: string
  last_used_at: string
}

export const ownSessionsQuery = queryOptions({
  queryKey: ['own-sessions'],
  queryFn: () => call<OwnSession[]>('GET', '/sessions'),
})

export const endSession = (id: string): Promise<void> => call('DELETE', `/sessions/${id}`)
export const endOtherSessions = (): Promise<void> => call('DELETE', '/other-sessions')
