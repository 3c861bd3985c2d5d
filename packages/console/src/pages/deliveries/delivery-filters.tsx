import type { Webhook } from '@keyhook/client'
import { Layers, Radio } from 'lucide-react'
import { useState } from 'react'
import { useEventTypes } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Select } from '../../components/select.tsx'
import { localMinute, TimeField } from '../../components/time-field.tsx'
import { type DeliverySearch, eventIdPattern, type Range } from '../../search.ts'
import { rangeTexts } from '../../words/ranges.ts'
import { errorTitles } from '../../words/send-errors.ts'

type Props = {
  organization: string
  search: DeliverySearch
  webhooks: readonly Webhook[]
  isLive: boolean
  onChange: (changes: Partial<DeliverySearch>, options?: { replace: boolean }) => void
  onLive: (isLive: boolean) => void
}

const statuses = {
  any: 'Any outcome',
  succeeded: 'Succeeded',
  failed: 'Failed',
  sending: 'Sending',
  interrupted: 'Interrupted',
}
// Not the bare numbers: an object has those before its other keys.
const answers = ['2xx', '3xx', '4xx', '5xx', '400', '401', '403', '404', '410', '429', '500', '502', '503', '504']
const answerTexts = Object.fromEntries(answers.map((answer) => [`HTTP ${answer}`, `HTTP ${answer}`]))
const answerKey = (answer: string | undefined) =>
  answer === undefined ? 'any' : answer === 'none' ? answer : `HTTP ${answer}`
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
        label="HTTP status"
        options={{ any: 'Any HTTP status', none: 'No answer', ...answerTexts }}
        value={answerKey(search.answer)}
        onChange={(answer) => onChange({ answer: given(answer)?.replace('HTTP ', '') })}
      />
      <Select<string>
        small
        label="Error"
        options={{ any: 'Any error', ...errorTitles }}
        value={search.error ?? 'any'}
        onChange={(error) => onChange({ error: given(error) })}
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
      <EventFilter key={search.event} event={search.event} onChange={(event) => onChange({ event })} />
      <span className="grow" />
      <Button
        small
        aria-pressed={search.group === 'event'}
        onClick={() => onChange({ group: search.group === 'event' ? undefined : 'event' })}
      >
        <Layers size={14} aria-hidden="true" />
        Group by event
      </Button>
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

type EventFilterProps = { event: string | undefined; onChange: (event: string | undefined) => void }

/** The id of an event, which is searched for with Enter or on leaving the field. */
function EventFilter({ event, onChange }: EventFilterProps) {
  const [text, setText] = useState(event ?? '')
  const id = text.trim()
  const isWrong = id !== '' && !eventIdPattern.test(id)
  const search = () => {
    if (!isWrong && id !== (event ?? '')) onChange(id === '' ? undefined : id)
  }
  return (
    <input
      type="search"
      className="input input-small event-filter mono"
      aria-label="Event id"
      placeholder="Event id"
      autoComplete="off"
      spellCheck={false}
      aria-invalid={isWrong}
      value={text}
      onChange={({ target }) => setText(target.value)}
      onBlur={search}
      onKeyDown={({ key }) => key === 'Enter' && search()}
    />
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
          <ChosenTime label="From" time={since} onChange={(time) => onChange({ since: time }, { replace: true })} />
          <ChosenTime label="Until" time={until} onChange={(time) => onChange({ until: time }, { replace: true })} />
        </>
      )}
    </>
  )
}

type ChosenTimeProps = { label: string; time: string | undefined; onChange: (time: string | undefined) => void }

/** While a time is typed the field has no value. Only one that is left like that has been cleared. */
function ChosenTime({ label, time, onChange }: ChosenTimeProps) {
  const [isEmpty, setEmpty] = useState(false)
  const change = (value: string) => {
    setEmpty(value === '')
    if (value !== '') onChange(new Date(value).toISOString())
  }
  const leave = () => {
    if (isEmpty) onChange(undefined)
    setEmpty(false)
  }
  return (
    <TimeField
      small
      label={label}
      value={isEmpty || time === undefined ? '' : localMinute(Date.parse(time))}
      onChange={change}
      onBlur={leave}
    />
  )
}
