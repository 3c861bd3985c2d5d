import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ErrorState, LoadingBlock } from '../../components/states.tsx'

const rowsMax = 6

type Props<T> = {
  title: string
  query: UseQueryResult<T[]>
  /** Smaller comes first. */
  urgency: (record: T) => number
  /** Where all of them are. */
  all: ReactNode
  empty: string
  row: (record: T) => ReactNode
}

/** The few records that most need somebody. */
export function HomeList<T extends { id: string }>({ title, query, urgency, all, empty, row }: Props<T>) {
  const ordered = query.data?.toSorted((a, b) => urgency(a) - urgency(b)).slice(0, rowsMax)
  return (
    <section className="card" aria-label={title}>
      <div className="card-header">
        <h2>{title}</h2>
        {all}
      </div>
      {query.error && !ordered && <ErrorState error={query.error} retry={query.refetch} what={title} />}
      {!query.error && !ordered && <LoadingBlock />}
      {ordered?.length === 0 && <p className="card-body muted">{empty}</p>}
      <ul>
        {ordered?.map((record) => (
          <li key={record.id} className="home-row">
            {row(record)}
          </li>
        ))}
      </ul>
    </section>
  )
}
