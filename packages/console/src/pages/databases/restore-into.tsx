import type { CreatedDatabase } from '@keyhook/client'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { refreshDatabases } from '../../api/database-queries.ts'
import { ConnectionDialog } from './connection.tsx'

type Props = {
  organization: string
  onClose: () => void
  /** Asks what to restore, and hands on the new database. */
  children: (onCreated: (created: CreatedDatabase) => Promise<void>) => ReactNode
}

/** First the question, then the new password, then the page of the new database. */
export function RestoreInto({ organization, onClose, children }: Props) {
  const [created, setCreated] = useState<CreatedDatabase | null>(null)
  const navigate = useNavigate()
  if (created === null) {
    return children(async (database) => {
      setCreated(database)
      await refreshDatabases(organization)
    })
  }
  const show = () => {
    onClose()
    void navigate({ to: '/$orgId/databases/$databaseId', params: { orgId: organization, databaseId: created.id } })
  }
  return <ConnectionDialog organization={organization} created={created} onClose={show} />
}
