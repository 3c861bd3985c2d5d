import type { Database } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { databaseStatsQuery } from '../../api/database-queries.ts'
import { bytesText, countText } from '../../words/numbers.ts'

type Props = { organization: string; database: Database }

const Unknown = () => <span className="muted">–</span>

/** How large a database is, and of how much, as its node saw it a few seconds ago. */
export function DatabaseSize({ organization, database }: Props) {
  const stats = useQuery(databaseStatsQuery(organization, database)).data
  const { storage } = database
  const used = stats?.size_bytes ?? storage?.used_bytes ?? null
  if (used === null) return <Unknown />
  return (
    <div className="share">
      <span className="number">{bytesText(used)}</span>
      {storage && (
        <>
          <progress
            className="progress"
            value={storage.used_bytes}
            max={Math.max(storage.limit_bytes, 1)}
            aria-label="Share of the storage limit"
          />
          <span className="small muted number">
            {bytesText(storage.used_bytes)} of {bytesText(storage.limit_bytes)} on disk
          </span>
        </>
      )}
    </div>
  )
}

export function DatabaseConnections({ organization, database }: Props) {
  const stats = useQuery(databaseStatsQuery(organization, database)).data
  if (stats?.connections == null) return <Unknown />
  return (
    <span className="number">
      {countText(stats.connections)}
      {stats.connections_max !== null && <span className="muted"> of {countText(stats.connections_max)}</span>}
    </span>
  )
}
