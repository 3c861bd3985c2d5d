import type { Backup, CreatedDatabase } from '@keyhook/client'
import { client } from '../../api/client.ts'
import { NameDialog } from '../../components/name-dialog.tsx'
import { RestoreInto } from './restore-into.tsx'

type Props = { organization: string; backup: Backup; from: string; onClose: () => void }

export function RestoreBackup({ organization, backup, from, onClose }: Props) {
  const restore = async (name: string): Promise<CreatedDatabase> =>
    (await client.restores.create(backup.id, { name }, { organization })).database
  return (
    <RestoreInto organization={organization} onClose={onClose}>
      {(onCreated) => (
        <NameDialog
          title="Restore into a new database"
          description={`“${from}” stays as it is. The new database starts with the data of this backup and gets its own password.`}
          action="Restore"
          what="database"
          name={`${from} restored`}
          onSubmit={(name) => restore(name).then(onCreated)}
          onClose={onClose}
        />
      )}
    </RestoreInto>
  )
}
