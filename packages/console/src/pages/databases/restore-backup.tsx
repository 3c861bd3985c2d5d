import type { Backup, CreatedDatabase } from '@keyhook/client'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshDatabases } from '../../api/database-queries.ts'
import { NameDialog } from '../../components/name-dialog.tsx'
import { ConnectionDialog } from './connection.tsx'

type Props = { organization: string; backup: Backup; from: string; onClose: () => void }

export function RestoreBackup({ organization, backup, from, onClose }: Props) {
  const [created, setCreated] = useState<CreatedDatabase | null>(null)
  const navigate = useNavigate()
  if (created !== null) {
    const show = () => {
      onClose()
      void navigate({ to: '/$orgId/databases/$databaseId', params: { orgId: organization, databaseId: created.id } })
    }
    return <ConnectionDialog organization={organization} created={created} onClose={show} />
  }
  return (
    <NameDialog
      title="Restore into a new database"
      description={`“${from}” stays as it is. The new database starts with the data of this backup and gets its own password.`}
      action="Restore"
      name={`${from} restored`}
      onSubmit={async (name) => {
        setCreated((await client.restores.create(backup.id, { name }, { organization })).database)
        await refreshDatabases(organization)
      }}
      onClose={onClose}
    />
  )
}
