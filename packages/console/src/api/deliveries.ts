import type { OrganizationDelivery as Attempt, DeliveryFilter, Page } from '@keyhook/client'
import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { client } from './client.ts'

const pageSize = 100
const pollMs = 2_000

const readPage = (
  organization: string,
  filter: DeliveryFilter,
  cursor?: string,
  signal?: AbortSignal,
): Promise<Page<Attempt>> => client.deliveries.list({ ...filter, organization, limit: pageSize, signal }).page(cursor)

type Loaded = { attempts: Attempt[]; next: string | null }

/**
 * Attempts, newest first, kept up to date: the newest page is read every two seconds and merged into what is loaded. Further
 * pages are loaded while one scrolls, and are not read again.
 */
export function useLiveDeliveries(organization: string, filter: DeliveryFilter, isLive: boolean) {
  const [loaded, setLoaded] = useState<Loaded | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [olderError, setOlderError] = useState<unknown>(null)
  const [isLoadingMore, setLoadingMore] = useState(false)
  const [round, setRound] = useState(0)
  const queries = useQueryClient()
  const key = JSON.stringify([organization, filter])
  const current = useRef(key)

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the filter, and `round` for "try again"
  useEffect(() => {
    if (current.current !== key) {
      current.current = key
      setLoaded(null)
    }
    setError(null)
    setOlderError(null)
    const abort = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const poll = async () => {
      try {
        if (document.visibilityState === 'visible') {
          const page = await readPage(organization, filter, undefined, abort.signal)
          setLoaded((before) => merge(before, page))
          setError(null)
        }
      } catch (caught) {
        if (abort.signal.aborted) return
        setError(caught)
      }
      if (isLive && !abort.signal.aborted) timer = setTimeout(poll, pollMs)
    }
    void poll()
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [key, isLive, round, queries])

  const next = loaded?.next ?? null
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the filter
  const loadMore = useCallback(async () => {
    if (next === null || isLoadingMore) return
    setLoadingMore(true)
    try {
      const page = await readPage(organization, filter, next)
      if (current.current === key)
        setLoaded((before) =>
          before?.next === next ? { attempts: [...before.attempts, ...page.items], next: page.next } : before,
        )
    } catch (caught) {
      if (current.current === key) setOlderError(caught)
    } finally {
      setLoadingMore(false)
    }
  }, [key, next, isLoadingMore])

  return {
    attempts: loaded?.attempts,
    error: error ?? olderError,
    // After a failure the next try is the user's: the list asks whenever it may.
    hasMore: next !== null && olderError === null,
    isLoadingMore,
    loadMore,
    retry: () => setRound((before) => before + 1),
  }
}

/**
 * Puts a fresh first page in the place of its part of what is loaded: what is missing there has left the list, as attempts leave the
 * filter "Sending". If more than a page is new, what lies between is unknown, so we start over from it.
 */
function merge(before: Loaded | null, { items, next }: Page<Attempt>): Loaded {
  const known = before?.attempts ?? []
  const mayBeSame = next !== null || items.length === known.length
  // Nothing new: the same array, so that nothing is rendered or measured again.
  if (before !== null && mayBeSame && items.every((item, index) => isSame(item, known[index]))) return before
  // Lists are in the order of their ids.
  const [newest, last] = [known[0]?.id ?? '', items.at(-1)?.id ?? '']
  const older = next === null || newest < last ? [] : known.filter(({ id }) => id < last)
  return { attempts: [...items, ...older], next: older.length === 0 ? next : before!.next }
}

/** What changes in an attempt comes with its end. */
const isSame = (a: Attempt, b: Attempt | undefined): boolean =>
  a.id === b?.id && a.status === b.status && a.next_attempt_at === b.next_attempt_at
