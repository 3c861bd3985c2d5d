import type { Webhook } from '@keyhook/client'
import { Radio } from 'lucide-react'
import { useEventTypes } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Select } from '../../components/select.tsx'
import type { DeliverySearch, Range } from '../../search.ts'

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
const rangeTexts = {
  any: 'Any time',
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
}

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
      <Select<Range | 'any'>
        small
        label="Time"
        options={rangeTexts}
        value={search.range ?? 'any'}
        onChange={(range) => onChange({ range: given<Range>(range) })}
      />
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
