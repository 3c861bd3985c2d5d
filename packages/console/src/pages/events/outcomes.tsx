import type { EventOutcomes, EventRecord } from '@keyhook/client'
import { Badge, type Tone } from '../../components/badge.tsx'
import { countText } from '../../words/numbers.ts'

/** In the words of the page of an event. */
const states: Record<keyof EventOutcomes, { text: string; tone: Tone }> = {
  succeeded: { text: 'delivered', tone: 'success' },
  failing: { text: 'failing', tone: 'danger' },
  failed: { text: 'not delivered', tone: 'danger' },
  waiting: { text: 'waiting', tone: 'warning' },
  expired: { text: 'finished', tone: 'neutral' },
}

/** How the deliveries of an event stand, without those states that none is in. */
export function Outcomes({ outcomes }: Pick<EventRecord, 'outcomes'>) {
  if (outcomes === undefined) return <span className="muted">—</span>
  if (outcomes === null) return <span className="muted">More than 200 webhooks</span>
  const found = (Object.keys(states) as (keyof EventOutcomes)[]).filter((state) => outcomes[state] > 0)
  if (found.length === 0) return <span className="muted">No webhook</span>
  return (
    <span className="tags">
      {found.map((state) => (
        <Badge key={state} tone={states[state].tone}>
          {countText(outcomes[state])} {states[state].text}
        </Badge>
      ))}
    </span>
  )
}
