import type { Webhook } from '@keyhook/client'
import { Radio } from 'lucide-react'
import { useEventTypes } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Select } from '../../components/select.tsx'
import { localMinute, TimeField } from '../../components/time-field.tsx'
import type { DeliverySearch, Range } from '../../search.ts'
import { rangeTexts } from '../../words/ranges.ts'

type Props = {
  organization: string
  search: DeliverySearch
  webhooks: readonly Webhook[]
  isLive: boolean
  onChange: (changes: Partial<DeliverySearch>) => void
  onLive: (isLive: boolean) => void
}

const statuses = {
  any: 'Any outcome',
  succeeded: 'Succeeded',
  failed: 'Failed',
  sending: 'Sending',
  interrupted: 'Interrupted',
}
const timeTexts = { ...rangeTexts, chosen: 'Chosen time' }

const given = <T extends string>(value: T | 'any'): T | undefined => (value === 'any' ? undefined : (value as T))

export function DeliveryFilters({ organization, search, webhooks, isLive, onChange, onLive }: Props) {
  const types = useEventTypes(organization).map(({ name }) => [name, name])
  const hooks = webhooks.map(({ id, url }) => [id, url.replace(/^https:\/\//, '')])
  return (
    <search className="filters" aria-label="Filters">
      <Select
        small
        label="Outcome"
        options={statuses}
        value={search.status ?? 'any'}
        onChange={(status) => onChange({ status: given(status) })}
      />
      <Select<string>
        small
        label="Event type"
        options={{ any: 'Any event type', ...Object.fromEntries(types) }}
        value={search.type ?? 'any'}
        onChange={(type) => onChange({ type: given(type) })}
      />
      <Select<string>
        small
        label="Webhook"
        options={{ any: 'All webhooks', ...Object.fromEntries(hooks) }}
        value={search.webhook ?? 'any'}
        onChange={(webhook) => onChange({ webhook: given(webhook) })}
      />
      <TimeFilter search={search} onChange={onChange} />
      <span className="grow" />
      <Button
        small
        aria-pressed={isLive}
        onClick={() => onLive(!isLive)}
        title={isLive ? 'Stop updating' : 'Update as it happens'}
      >
        <Radio size={14} aria-hidden="true" className={isLive ? 'live-icon' : undefined} />
        {isLive ? 'Live' : 'Paused'}
      </Button>
    </search>
  )
}

const hourMs = 3_600_000

/** One of the usual ranges, or from one minute to another. A click on a bar of the charts chooses its time. */
function TimeFilter({ search: { range, since, until }, onChange }: Pick<Props, 'search' | 'onChange'>) {
  const isChosen = since !== undefined || until !== undefined
  const choose = (value: Range | 'any' | 'chosen') => {
    if (value === 'chosen') onChange({ since: new Date(Date.now() - hourMs).toISOString() })
    else onChange({ range: given<Range>(value), since: undefined, until: undefined })
  }
  const shown = (time: string | undefined) => (time === undefined ? '' : localMinute(Date.parse(time)))
  const read = (value: string) => (value === '' ? undefined : new Date(value).toISOString())
  return (
    <>
      <Select<Range | 'any' | 'chosen'>
        small
        label="Time"
        options={timeTexts}
        value={isChosen ? 'chosen' : (range ?? 'any')}
        onChange={choose}
      />
      {isChosen && (
        <>
          <TimeField
            small
            label="From"
            value={shown(since)}
            onChange={(value) => onChange({ since: read(value) ?? new Date(0).toISOString() })}
          />
          <TimeField small label="Until" value={shown(until)} onChange={(value) => onChange({ until: read(value) })} />
        </>
      )}
    </>
  )
}
