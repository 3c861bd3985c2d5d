import type { ReactNode } from 'react'
import { Button } from './button.tsx'
import { ErrorState, LoadingRows } from './states.tsx'

export type Column<T> = {
  label: string
  cell: (row: T) => ReactNode
  className?: string
  /** The column has no visible heading. */
  quiet?: boolean
}

/** What a list query offers; both plain and infinite queries fit. */
type Rows<T> = {
  rows: readonly T[] | undefined
  error: unknown
  retry: () => unknown
  more?: { isLoading: boolean; load: () => unknown } | undefined
}

type DataTableProps<T> = Rows<T> & {
  /** For screen readers, and "… could not be loaded". */
  label: string
  columns: readonly Column<T>[]
  rowKey: (row: T) => string
  empty: ReactNode
}

/** A table with its loading, empty and error states. On a narrow screen each row becomes a card. */
export function DataTable<T>({ rows, error, retry, more, label, columns, rowKey, empty }: DataTableProps<T>) {
  if (rows === undefined && error) return <ErrorState error={error} retry={retry} what={label} />
  if (rows?.length === 0) return empty
  return (
    <>
      <div className="table-scroll">
        <table className="table table-cards" aria-label={label} aria-busy={rows === undefined}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.label} scope="col" className={column.className}>
                  {column.quiet ? <span className="visually-hidden">{column.label}</span> : column.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows === undefined ? (
              <LoadingRows columns={columns.length} />
            ) : (
              rows.map((row) => (
                <tr key={rowKey(row)}>
                  {columns.map((column) => (
                    <td
                      key={column.label}
                      className={column.className}
                      data-label={column.quiet ? undefined : column.label}
                    >
                      <div>{column.cell(row)}</div>
                    </td>
                  ))}
                </tr>
              ))
            )}
          </tbody>
        </table>
      </div>
      {more && (
        <div className="table-more">
          <Button small busy={more.isLoading} onClick={() => more.load()}>
            Show more
          </Button>
        </div>
      )}
    </>
  )
}
