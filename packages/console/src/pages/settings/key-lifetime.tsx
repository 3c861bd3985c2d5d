import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client, queryClient } from '../../api/client.ts'
import { daysMaxOf, keyLifetimeQuery } from '../../api/key-queries.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { showToast } from '../../components/toasts.tsx'
import { explain } from '../../words/errors.ts'
import { daysText } from '../keys/expiry.ts'

/** The longest that new API keys of the organization may last. */
export function KeyLifetime({ organization }: { organization: CurrentOrganization }) {
  const [isOpen, setOpen] = useState(false)
  const { data, error } = useQuery(keyLifetimeQuery(organization.id))
  if (data === undefined) return error ? explain(error) : '…'
  const daysMax = daysMaxOf(data)
  return (
    <div className="row row-wrap">
      <span>{daysMax === null ? 'They may last for ever.' : `They expire after ${daysText(daysMax)} at most.`}</span>
      {organization.can('keys:limit') && (
        <Button small onClick={() => setOpen(true)}>
          Change limit
        </Button>
      )}
      {isOpen && <LifetimeDialog organization={organization.id} days={data.days_max} onClose={() => setOpen(false)} />}
    </div>
  )
}

type DialogProps = { organization: string; days: number | null; onClose: () => void }

function LifetimeDialog({ organization, days, onClose }: DialogProps) {
  const form = useForm({ defaultValues: { days_max: days === null ? '' : String(days) } })
  return (
    <FormDialog
      title="Limit how long API keys last"
      description="Every key that is created from now on expires after this time at the latest. Existing keys stay as they are."
      action="Save"
      form={form}
      onSubmit={async ({ days_max: text }) => {
        const wanted = { days_max: text.trim() === '' ? null : Number(text) }
        const saved = await client.keys.setLifetime(wanted, { organization })
        queryClient.setQueryData(keyLifetimeQuery(organization).queryKey, saved)
        showToast({ title: 'The limit was changed' })
        onClose()
      }}
      onClose={onClose}
    >
      <TextField
        label="Days"
        hint="Leave it empty to set no limit. One that the operator has set still holds."
        inputMode="numeric"
        error={form.formState.errors.days_max?.message}
        {...form.register('days_max', {
          validate: (text) => (/^([1-9]\d{0,3})?$/.test(text.trim()) && Number(text) <= 3_650 ? true : daysRule),
        })}
      />
    </FormDialog>
  )
}

const daysRule = 'Enter a whole number from 1 to 3,650, or nothing.'
