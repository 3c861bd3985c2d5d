import type { Backup, Database } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Archive } from 'lucide-react'
import { useState } from 'react'
import { client, queryClient } from '../../api/client.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { MenuItem, RowMenu } from '../../components/menu.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { bytesText } from '../../words/numbers.ts'
import { BackupSchedule } from './backup-schedule.tsx'
import { JobStatus } from './database-status.tsx'
import { RecoveryWindow } from './recovery-window.tsx'
import { RestoreBackup } from './restore-backup.tsx'

export function Backups({ organization, database }: { organization: CurrentOrganization; database: Database }) {
  const options = { organization: organization.id }
  const queryKey = [organization.id, 'backups', database.id]
  const [restoring, setRestoring] = useState<Backup | null>(null)
  const [removing, setRemoving] = useState<Backup | null>(null)
  const [isStarting, setStarting] = useState(false)
  const backups = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.backups.list({ ...options, databaseId: database.id, signal }).toArray(),
    refetchInterval: ({ state }) =>
      state.data?.some(({ status }) => status === 'running' || status === 'deleting') ? 1_000 : 10_000,
  })
  const refresh = () => queryClient.invalidateQueries({ queryKey })
  const backUp = () => {
    setStarting(true)
    client.backups
      .create(database.id, options)
      .then(refresh, toastError('The backup was not started'))
      .finally(() => setStarting(false))
  }
  const cancel = (backup: Backup) =>
    void client.backups.cancel(backup.id, options).then(refresh, toastError('The backup was not cancelled'))
  const start = organization.can('backups:create') && database.status === 'available' && (
    <Button small busy={isStarting} onClick={backUp}>
      Back up now
    </Button>
  )
  const columns: Column<Backup>[] = [
    { label: 'Started', cell: (backup) => <RelativeTime at={backup.created_at} /> },
    {
      label: 'Status',
      cell: (backup) => (
        <div className="stack-small">
          <JobStatus status={backup.status} />
          {backup.status === 'running' && <BackupProgress backup={backup} />}
          {backup.failure !== null && <span className="small muted">{backup.failure}</span>}
        </div>
      ),
    },
    { label: 'Size', className: 'number', cell: (backup) => bytesText(backup.size_bytes) },
    { label: 'Origin', cell: (backup) => (backup.origin === 'scheduled' ? 'Schedule' : 'Requested') },
    { label: 'Id', cell: (backup) => <IdChip id={backup.id} short /> },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (backup) =>
        backup.status !== 'deleting' &&
        (backup.status === 'running'
          ? organization.can('backups:create') && (
              <Button small onClick={() => cancel(backup)}>
                Cancel
              </Button>
            )
          : (organization.can('backups:restore') || organization.can('backups:delete')) && (
              <RowMenu label="Actions of this backup">
                {backup.status === 'completed' && organization.can('backups:restore') && (
                  <MenuItem onSelect={() => setRestoring(backup)}>Restore into a new database</MenuItem>
                )}
                {organization.can('backups:delete') && (
                  <MenuItem danger onSelect={() => setRemoving(backup)}>
                    Delete
                  </MenuItem>
                )}
              </RowMenu>
            )),
    },
  ]
  return (
    <section className="card" aria-label="Backups">
      <div className="card-header">
        <h2>Backups</h2>
        {start}
      </div>
      {database.status !== 'deleting' && <BackupSchedule organization={organization} databaseId={database.id} />}
      {database.status !== 'deleting' && <RecoveryWindow organization={organization} database={database} />}
      <DataTable
        rows={backups.data}
        error={backups.error}
        retry={backups.refetch}
        label="Backups"
        columns={columns}
        rowKey={(backup) => backup.id}
        empty={
          <EmptyState icon={Archive} title="No backups yet">
            A backup is a whole copy. “Back up now” makes one, and it can be restored into a new database at any time.
          </EmptyState>
        }
      />
      {restoring && (
        <RestoreBackup
          organization={organization.id}
          backup={restoring}
          from={database.name}
          onClose={() => setRestoring(null)}
        />
      )}
      {removing && (
        <Confirm
          title="Delete this backup?"
          description={
            <>The backup of {new Date(removing.created_at).toLocaleString('en')} is removed. This cannot be undone.</>
          }
          action="Delete backup"
          onConfirm={async () => {
            await client.backups.delete(removing.id, options)
            await refresh()
            showToast({ title: 'The backup is being deleted' })
          }}
          onClose={() => setRemoving(null)}
        />
      )}
    </section>
  )
}

function BackupProgress({ backup }: { backup: Backup }) {
  return (
    <div className="stack-small">
      <progress
        className="progress"
        aria-label="Progress of the backup"
        {...(backup.bytes_total === null ? {} : { value: backup.bytes_done, max: Math.max(backup.bytes_total, 1) })}
      />
      <span className="small muted number">
        {bytesText(backup.bytes_done)} of {backup.bytes_total === null ? '…' : bytesText(backup.bytes_total)}
      </span>
    </div>
  )
}
