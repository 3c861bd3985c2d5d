import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { client, queryClient } from '../../api/client.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { webhookSuspensionQuery } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { showToast } from '../../components/toasts.tsx'
import { explain } from '../../words/errors.ts'

/** After how many hours of failing webhooks of the organization are suspended. */
export function WebhookSuspension({ organization }: { organization: CurrentOrganization }) {
  const [isOpen, setOpen] = useState(false)
  const { data, error } = useQuery(webhookSuspensionQuery(organization.id))
  if (data === undefined) return error ? explain(error) : '…'
  const hours = data.after_hours ?? data.operator_after_hours
  return (
    <div className="row row-wrap">
      <span>{hours === 0 ? 'They are never suspended.' : `They are suspended after ${hoursText(hours)}.`}</span>
      {organization.can('organizations:update') && (
        <Button small onClick={() => setOpen(true)}>
          Change time
        </Button>
      )}
      {isOpen && (
        <SuspensionDialog
          organization={organization.id}
          hours={data.after_hours}
          operatorHours={data.operator_after_hours}
          onClose={() => setOpen(false)}
        />
      )}
    </div>
  )
}

const hoursText = (hours: number): string => (hours === 1 ? 'an hour' : `${hours} hours`)

type DialogProps = { organization: string; hours: number | null; operatorHours: number; onClose: () => void }

function SuspensionDialog({ organization, hours, operatorHours, onClose }: DialogProps) {
  const form = useForm({ defaultValues: { after_hours: hours === null ? '' : String(hours) } })
  return (
    <FormDialog
      title="Suspend webhooks that fail"
      description="The deliveries of a webhook wait when all of its attempts have failed for so long. It is tried every hour, and the first success sends what has waited."
      action="Save"
      form={form}
      onSubmit={async ({ after_hours: text }) => {
        const wanted = { after_hours: text.trim() === '' ? null : Number(text) }
        const saved = await client.webhooks.setSuspension(wanted, { organization })
        queryClient.setQueryData(webhookSuspensionQuery(organization).queryKey, saved)
        showToast({ title: 'The time was changed' })
        onClose()
      }}
      onClose={onClose}
    >
      <TextField
        label="Hours"
        hint={`0: never. Leave it empty to use the time of the operator: ${operatorHours === 0 ? 'never' : hoursText(operatorHours)}.`}
        inputMode="numeric"
        error={form.formState.errors.after_hours?.message}
        {...form.register('after_hours', {
          validate: (text) => (/^(\d{1,3})?$/.test(text.trim()) && Number(text) <= 720 ? true : hoursRule),
        })}
      />
    </FormDialog>
  )
}

const hoursRule = 'Enter a whole number from 0 to 720, or nothing.'
