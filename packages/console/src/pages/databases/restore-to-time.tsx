import { type Database, KeyhookError } from '@keyhook/client'
import { useForm } from 'react-hook-form'
import { client } from '../../api/client.ts'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { exactText } from '../../components/time.tsx'
import { localSecond } from '../../components/time-field.tsx'
import { RestoreInto } from './restore-into.tsx'

type Range = { from: string; to: string }
type Props = { organization: string; database: Database; range: Range; onClose: () => void }

/** Makes a new database with what was committed by a time. */
export function RestoreToTime({ organization, database, range, onClose }: Props) {
  const [first, last] = [localSecond(range.from, 'up'), localSecond(range.to, 'down')]
  const form = useForm({ defaultValues: { name: `${database.name} restored`, to: last } })
  const { errors } = form.formState
  const restore = async ({ name, to }: { name: string; to: string }) => {
    const request = { name: name.trim(), to: new Date(to).toISOString() }
    return (await client.databases.restore(database.id, request, { organization })).database
  }
  return (
    <RestoreInto organization={organization} onClose={onClose}>
      {(onCreated) => (
        <FormDialog
          title="Restore to a time"
          description={`“${database.name}” stays as it is. A new database gets exactly what was committed by this time, and its own password.`}
          action="Restore"
          form={form}
          onSubmit={(values) =>
            restore(values)
              .then(onCreated)
              .catch((error) => {
                if (!(error instanceof KeyhookError && error.code === 'restore.outside_window')) throw error
                form.setError('to', { message: error.message }, { shouldFocus: true })
              })
          }
          onClose={onClose}
        >
          <TextField
            label="Time"
            type="datetime-local"
            step={1}
            min={first}
            max={last}
            hint={`Your local time, from ${exactText(range.from)} to ${exactText(range.to)}.`}
            error={errors.to?.message}
            {...form.register('to', {
              validate: (to) =>
                (to !== '' && inRange(new Date(to).getTime(), range)) || 'Choose a time in the range below.',
            })}
          />
          <TextField
            label="Name"
            hint="The name of the new database."
            error={errors.name?.message}
            {...form.register('name', { validate: (name) => name.trim() !== '' || 'Give the database a name.' })}
          />
        </FormDialog>
      )}
    </RestoreInto>
  )
}

const inRange = (ms: number, { from, to }: Range): boolean => ms >= Date.parse(from) && ms <= Date.parse(to)
