import { useQuery } from '@tanstack/react-query'
import type { UseFormReturn } from 'react-hook-form'
import { eventTypesQuery } from '../../api/webhook-queries.ts'
import { FieldError } from '../../components/field.tsx'
import { ErrorState, LoadingBlock } from '../../components/states.tsx'
import type { WebhookForm } from './webhook-form.ts'

type Props = { organization: string; form: UseFormReturn<WebhookForm> }

/** A checkbox and an explanation per event type, and one for all of them. */
export function EventTypeChoices({ organization, form }: Props) {
  const types = useQuery(eventTypesQuery(organization))
  const error = form.formState.errors.event_types?.message
  const names: string[] = types.data?.map(({ name }) => name) ?? []
  const chosen = names.filter((name) => form.watch('event_types').includes(name))
  const isAll = chosen.length === names.length
  const chooseAll = () =>
    form.setValue('event_types', isAll ? [] : names, {
      shouldDirty: true,
      shouldValidate: form.formState.isSubmitted,
    })
  return (
    <fieldset className="field">
      <legend>Events to send</legend>
      {types.isPending && <LoadingBlock label="Loading event types" />}
      {types.isError && <ErrorState error={types.error} retry={types.refetch} what="The event types" />}
      <div>
        {types.data && (
          <label className="choice">
            <input
              type="checkbox"
              checked={isAll}
              ref={(box) => {
                if (box !== null) box.indeterminate = chosen.length > 0 && !isAll
              }}
              onChange={chooseAll}
            />
            <span>All events</span>
            <span>The {names.length} types below. One that is added later is not chosen by itself.</span>
          </label>
        )}
        {types.data?.map(({ name, description }) => (
          <label key={name} className="choice">
            <input
              type="checkbox"
              value={name}
              {...form.register('event_types', {
                validate: (given) => given.length > 0 || 'Choose at least one event type.',
              })}
              aria-invalid={error !== undefined}
            />
            <span className="mono">{name}</span>
            <span>{description}</span>
          </label>
        ))}
      </div>
      {error && <FieldError>{error}</FieldError>}
    </fieldset>
  )
}
