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
  const [isLoadingMore, setLoadingMore] = useState(false)
  const [round, setRound] = useState(0)
  const queries = useQueryClient()
  const key = JSON.stringify([organization, filter])
  const current = useRef(key)

  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` stands for the filter, and `round` for "try again"
  useEffect(() => {
    current.current = key
    setLoaded(null)
    setError(null)
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
      if (current.current === key) setLoaded((before) => before && append(before, page))
    } catch (caught) {
      setError(caught)
    } finally {
      setLoadingMore(false)
    }
  }, [key, next, isLoadingMore])

  return {
    attempts: loaded?.attempts,
    error,
    hasMore: next !== null,
    isLoadingMore,
    loadMore,
    retry: () => setRound((before) => before + 1),
  }
}

/** Puts a fresh first page in front. If more than a page is new, what lies between is unknown, so we start over from it. */
function merge(before: Loaded | null, page: Page<Attempt>): Loaded {
  if (before === null) return { attempts: page.items, next: page.next }
  // Nothing new: the same array, so that nothing is rendered or measured again.
  if (page.items.length > 0 && page.items.every((item, index) => isSame(item, before.attempts[index]))) return before
  const fresh = new Set(page.items.map(({ id }) => id))
  const rest = before.attempts.filter(({ id }) => !fresh.has(id))
  const overlaps = rest.length < before.attempts.length
  if (!overlaps && page.next !== null) return { attempts: page.items, next: page.next }
  const attempts = [...page.items, ...rest]
  // Clocks of dispatchers differ, so a fresh attempt may be older than a known one.
  const [last, first] = [page.items.at(-1)?.started_at ?? '', rest[0]?.started_at ?? '']
  if (last < first) attempts.sort((a, b) => (a.started_at < b.started_at ? 1 : a.started_at > b.started_at ? -1 : 0))
  return { attempts, next: before.attempts.length <= page.items.length ? page.next : before.next }
}

/** What changes in an attempt comes with its end. */
const isSame = (a: Attempt, b: Attempt | undefined): boolean =>
  a.id === b?.id && a.status === b.status && a.next_attempt_at === b.next_attempt_at

/** Only the end can hold the same ones: a poll may have put them there. Of 100,000 the rest is not looked at. */
function append(before: Loaded, page: Page<Attempt>): Loaded {
  const known = new Set(before.attempts.slice(-2 * pageSize).map(({ id }) => id))
  return { attempts: [...before.attempts, ...page.items.filter(({ id }) => !known.has(id))], next: page.next }
}
