import type { CreatedDatabase } from '@keyhook/client'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshDatabases } from '../../api/database-queries.ts'
import { NameDialog } from '../../components/name-dialog.tsx'
import { ConnectionDialog } from './connection.tsx'

/** First the name, then the password: it is shown here and never again. */
export function CreateDatabase({ organization, onClose }: { organization: string; onClose: () => void }) {
  const [created, setCreated] = useState<CreatedDatabase | null>(null)
  if (created !== null) return <ConnectionDialog organization={organization} created={created} onClose={onClose} />
  return (
    <NameDialog
      title="Create database"
      description="Creates a PostgreSQL server for this database alone, on the node with the most free space."
      action="Create database"
      what="database"
      onSubmit={async (name) => {
        setCreated(await client.databases.create({ name }, { organization }))
        await refreshDatabases(organization)
      }}
      onClose={onClose}
    />
  )
}
