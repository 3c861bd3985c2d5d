import type { Organization, QuotaName, QuotaUse } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useForm } from 'react-hook-form'
import { queryClient } from '../../api/client.ts'
import { operatorClient } from '../../api/operator.ts'
import { Dialog } from '../../components/dialog.tsx'
import { TextField } from '../../components/field.tsx'
import { FormDialog } from '../../components/form-dialog.tsx'
import { ErrorState } from '../../components/states.tsx'
import { showToast } from '../../components/toasts.tsx'
import { amountText, isSize, quotaNames, quotaWords, readQuota, typedQuota } from '../../words/quotas.ts'

type Props = { organization: Organization; onClose: () => void }

/** What one organization may use in place of the settings. */
export function OrganizationQuotas({ organization, onClose }: Props) {
  const { id, name } = organization
  const queryKey = ['operator', 'quotas', id]
  const { data, error, refetch } = useQuery({
    queryKey,
    queryFn: ({ signal }) => operatorClient.organizations.quotas(id, { signal }),
  })
  if (data !== undefined) {
    const onSaved = (saved: QuotaUse) => {
      queryClient.setQueryData(queryKey, saved)
      showToast({ title: `The quotas of “${name}” were changed` })
      onClose()
    }
    return <QuotaForm organization={organization} quotas={data} onSaved={onSaved} onClose={onClose} />
  }
  return (
    <Dialog title={`Quotas of “${name}”`} onClose={onClose}>
      {error ? <ErrorState error={error} retry={refetch} what="Quotas" /> : <p className="muted">Loading…</p>}
    </Dialog>
  )
}

type FormProps = Props & { quotas: QuotaUse; onSaved: (saved: QuotaUse) => void }
type Typed = Record<QuotaName, string>

function QuotaForm({ organization, quotas, onSaved, onClose }: FormProps) {
  const form = useForm<Typed>({
    defaultValues: Object.fromEntries(
      quotaNames.map((name) => {
        const { limit, is_own } = quotas[name]
        return [name, is_own && limit !== null ? typedQuota(name, limit) : '']
      }),
    ),
  })
  return (
    <FormDialog
      title={`Quotas of “${organization.name}”`}
      description="Leave a field empty for the limit of the settings. What exists stays, also above a lower quota."
      action="Save"
      form={form}
      wide
      onSubmit={async (typed) => {
        const changes = Object.fromEntries(quotaNames.map((name) => [name, readQuota(name, typed[name])!]))
        onSaved(await operatorClient.organizations.setQuotas(organization.id, changes))
      }}
      onClose={onClose}
    >
      {quotaNames.map((name) => (
        <TextField
          key={name}
          label={quotaWords[name]}
          hint={hintOf(name, quotas[name])}
          error={form.formState.errors[name]?.message}
          {...form.register(name, {
            validate: (text) => readQuota(name, text) !== undefined || (isSize(name) ? sizeRule : countRule),
          })}
        />
      ))}
    </FormDialog>
  )
}

function hintOf(name: QuotaName, { used, limit, is_own }: QuotaUse[QuotaName]): string {
  const use = used === null ? [] : [`${amountText(name, used)} used`]
  const limited = limit === null ? 'no limit' : `the limit of the settings is ${amountText(name, limit)}`
  const text = [...use, ...(is_own ? [] : [limited])].join(', ')
  return text === '' ? 'Set for this organization.' : `${text[0]!.toUpperCase()}${text.slice(1)}.`
}

const countRule = 'Enter a whole number, or nothing.'
const sizeRule = 'Enter a size such as 200GB, or nothing.'
