import type { CreatedDatabase } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { databaseQuery } from '../../api/database-queries.ts'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { withPassword } from './connection-snippets.ts'
import { DatabaseStatus } from './database-status.tsx'
import { HowToConnect } from './how-to-connect.tsx'

type Props = { organization: string; created: CreatedDatabase; onClose: () => void }

/** The password of a new database, once, and how to connect when it is ready. */
export function ConnectionDialog({ organization, created, onClose }: Props) {
  const { data: database = created } = useQuery(databaseQuery(organization, created.id))
  const url = database.connection_string === null ? null : withPassword(database.connection_string, created.password)
  return (
    <ShownOnce
      title={`Database “${created.name}”`}
      warning="Copy the password now. It will not be shown again, and is kept nowhere."
      copy={{ text: url ?? created.password, label: url === null ? 'Copy password' : 'Copy connection string' }}
      onClose={onClose}
    >
      <Secret label="Password" text={created.password} />
      {url === null ? (
        <div className="row" role="status">
          <DatabaseStatus database={database} />
          <span className="muted">
            {database.failure ?? 'The connection string appears here when the database is ready, in a few seconds.'}
          </span>
        </div>
      ) : (
        <>
          <Secret label="Connection string" text={url} />
          <HowToConnect url={url} />
        </>
      )}
    </ShownOnce>
  )
}
