import { useQuery } from '@tanstack/react-query'
import type { UseFormRegisterReturn } from 'react-hook-form'
import { eventTypesQuery } from '../../api/webhook-queries.ts'
import { FieldError } from '../../components/field.tsx'
import { ErrorState, LoadingBlock } from '../../components/states.tsx'

type Props = { organization: string; registration: UseFormRegisterReturn; error: string | undefined }

/** A checkbox and an explanation per event type. */
export function EventTypeChoices({ organization, registration, error }: Props) {
  const types = useQuery(eventTypesQuery(organization))
  return (
    <fieldset className="field">
      <legend>Events to send</legend>
      {types.isPending && <LoadingBlock label="Loading event types" />}
      {types.isError && <ErrorState error={types.error} retry={types.refetch} what="The event types" />}
      <div>
        {types.data?.map(({ name, description }) => (
          <label key={name} className="choice">
            <input type="checkbox" value={name} {...registration} aria-invalid={error !== undefined} />
            <span className="mono">{name}</span>
            <span>{description}</span>
          </label>
        ))}
      </div>
      {error && <FieldError>{error}</FieldError>}
    </fieldset>
  )
}
