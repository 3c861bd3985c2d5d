import type { BackupScheduleInForce, BackupSchedule as Schedule } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client, queryClient } from '../../api/client.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { Select } from '../../components/select.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast } from '../../components/toasts.tsx'
import { explain } from '../../words/errors.ts'
import { intervals, intervalText, isOfOperator, scheduleText } from './schedule-words.ts'

type Props = { organization: CurrentOrganization; databaseId: string }

/** When backups are made without being asked for. */
export function BackupSchedule({ organization, databaseId }: Props) {
  const queryKey = [organization.id, 'backup-schedule', databaseId]
  const [isOpen, setOpen] = useState(false)
  const { data: schedule, error } = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.backups.schedule(databaseId, { organization: organization.id, signal }),
    // When the next one is due changes with every backup.
    refetchInterval: 30_000,
  })
  const save = async (next: Schedule) => {
    await client.backups.setSchedule(databaseId, next, { organization: organization.id })
    await queryClient.invalidateQueries({ queryKey })
    showToast({ title: 'The schedule was changed' })
  }
  return (
    <div className="card-line row row-wrap">
      <span className="muted">Schedule</span>
      <span className="grow">{schedule ? <InWords schedule={schedule} /> : error ? explain(error) : '…'}</span>
      {schedule && organization.can('backups:create') && (
        <Button small onClick={() => setOpen(true)}>
          Change schedule
        </Button>
      )}
      {schedule && isOpen && <ScheduleDialog schedule={schedule} onSave={save} onClose={() => setOpen(false)} />}
    </div>
  )
}

function InWords({ schedule }: { schedule: BackupScheduleInForce }) {
  const next = schedule.in_force.next_at
  return (
    <>
      {scheduleText(schedule)}{' '}
      {next !== null && (
        <>
          The next one is due <RelativeTime at={next} />.{' '}
        </>
      )}
      {isOfOperator(schedule) && <span className="muted">The operator has set this for all databases.</span>}
    </>
  )
}

type DialogProps = { schedule: Schedule; onSave: (next: Schedule) => Promise<void>; onClose: () => void }

function ScheduleDialog({ schedule, onSave, onClose }: DialogProps) {
  const [every, setEvery] = useState(String(schedule.every_hours ?? 'default'))
  const form = useForm({ defaultValues: { keep: schedule.keep === null ? '' : String(schedule.keep) } })
  // An interval that was set over the API stays as it is.
  const options = every in intervals ? intervals : { ...intervals, [every]: intervalText(Number(every)) }
  return (
    <FormDialog
      title="Backup schedule"
      description="The schedule does not delete backups that you request yourself."
      action="Save"
      form={form}
      onSubmit={async ({ keep }) => {
        const count = keep.trim() === '' ? null : Number(keep)
        await onSave({ every_hours: every === 'default' ? null : Number(every), keep: count })
        onClose()
      }}
      onClose={onClose}
    >
      <Select label="How often" options={options} value={every} onChange={setEvery} />
      <TextField
        label="Backups to keep"
        hint="Leave it empty for the number that the operator has set. Older scheduled backups are deleted."
        inputMode="numeric"
        error={form.formState.errors.keep?.message}
        {...form.register('keep', {
          validate: (text) => /^([1-9]\d{0,2}|1000)?$/.test(text.trim()) || keepText,
        })}
      />
    </FormDialog>
  )
}

const keepText = 'Enter a whole number from 1 to 1,000, or nothing.'
