import type { Database } from '@keyhook/client'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshDatabases } from '../../api/database-queries.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { showToast } from '../../components/toasts.tsx'

const what = 'The data of the database is removed at once, and connections are closed.'

/** At the end of the page, away from what is used every day. */
export function DeleteDatabase({ organization, database }: { organization: string; database: Database }) {
  const navigate = useNavigate()
  const [isOpen, setOpen] = useState(false)
  const remove = async () => {
    await client.databases.delete(database.id, { organization })
    await navigate({ to: '/$orgId/databases', params: { orgId: organization } })
    await refreshDatabases(organization)
    showToast({ title: `“${database.name}” is being deleted` })
  }
  return (
    <section className="card" aria-label="Delete">
      <div className="card-header">
        <h2>Delete this database</h2>
        <Button small look="danger" onClick={() => setOpen(true)}>
          Delete database
        </Button>
      </div>
      <p className="card-body muted">{what} Its backups stay.</p>
      {isOpen && (
        <Confirm
          title={`Delete “${database.name}”?`}
          description={`${what} The backups stay and can be restored into a new database.`}
          action="Delete database"
          typed={database.name}
          onConfirm={remove}
          onClose={() => setOpen(false)}
        />
      )}
    </section>
  )
}
