import { useQuery } from '@tanstack/react-query'
import { fetchSignInWay } from './session.ts'

/** How people sign in, and whether the server sends mail. */
export const useSignInWays = () =>
  useQuery({ queryKey: ['sign-in'], queryFn: fetchSignInWay, staleTime: Number.POSITIVE_INFINITY })
