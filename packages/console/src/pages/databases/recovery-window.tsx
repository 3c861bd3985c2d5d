import type { Database } from '@keyhook/client'
import { useState } from 'react'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { RestoreToTime } from './restore-to-time.tsx'

/** From when to when the database can be restored to any second. */
export function RecoveryWindow({ organization, database }: { organization: CurrentOrganization; database: Database }) {
  // The range moves on while the dialog is open, which keeps the one that it showed first.
  const [chosenFrom, setChosenFrom] = useState<Database['recovery_window']>(null)
  const range = database.recovery_window
  return (
    <div className="card-line row row-wrap">
      <span className="muted">Recovery</span>
      <span className="grow">
        {range === null ? (
          'This database cannot be restored to a time yet. It needs a backup, and the operator has to store its write-ahead log.'
        ) : (
          <>
            Any time from <RelativeTime at={range.from} /> to <RelativeTime at={range.to} />.
          </>
        )}{' '}
        {database.recovery_problem}
      </span>
      {range !== null && organization.can('backups:restore') && (
        <Button small onClick={() => setChosenFrom(range)}>
          Restore to a time
        </Button>
      )}
      {chosenFrom !== null && (
        <RestoreToTime
          organization={organization.id}
          database={database}
          range={chosenFrom}
          onClose={() => setChosenFrom(null)}
        />
      )}
    </div>
  )
}
