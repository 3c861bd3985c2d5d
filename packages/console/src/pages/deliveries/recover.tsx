import type { Webhook } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { Select } from '../../components/select.tsx'
import { localMinute, TimeField, zoneText } from '../../components/time-field.tsx'
import { explain } from '../../words/errors.ts'
import { countText } from '../../words/numbers.ts'

type Props = { organization: string; webhooks: readonly Webhook[]; webhookId: string | undefined; onClose: () => void }

/** Sends everything of a time range again that did not arrive. The button says how many that is, before anything is sent. */
export function Recover({ organization, webhooks, webhookId, onClose }: Props) {
  const [webhook, setWebhook] = useState(
    () => (webhooks.find(({ id }) => id === webhookId) ?? mostFailing(webhooks))?.id ?? '',
  )
  const [since, setSince] = useState(() => localMinute(Date.now() - 86_400_000))
  // The field has minutes: the next one, so that what just failed is in the range.
  const [until, setUntil] = useState(() => localMinute(Date.now() + 60_000))
  const [started, setStarted] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [isBusy, setBusy] = useState(false)
  const isRange = since !== '' && until !== '' && since < until
  const range = isRange && { since: new Date(since).toISOString(), until: new Date(until).toISOString() }
  const counted = useQuery({
    queryKey: [organization, 'recoverable', webhook, range],
    queryFn: () => client.webhooks.recover(webhook, { ...(range as Range), dry_run: true }, { organization }),
    enabled: isRange,
    gcTime: 0,
  })
  const matching = counted.data?.matching
  const redeliver = (chosen: Range) => {
    setBusy(true)
    setError(null)
    client.webhooks
      .recover(webhook, chosen, { organization })
      .then(({ id }) => setStarted(id), setError)
      .finally(() => setBusy(false))
  }
  if (started !== null)
    return <Progress organization={organization} webhookId={webhook} id={started} onClose={onClose} />
  return (
    <Dialog
      title="Redeliver what did not arrive"
      description="All events of a time range that the webhook did not accept are sent again, each with its whole retry schedule ahead."
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            busy={isBusy || (isRange && counted.isPending)}
            disabled={!range || !matching}
            onClick={() => range && redeliver(range)}
          >
            {matching === undefined
              ? 'Redeliver'
              : matching === 0
                ? 'Nothing to redeliver'
                : `Redeliver ${deliveriesText(matching)}`}
          </Button>
        </>
      }
    >
      <Select
        label="Webhook"
        options={Object.fromEntries(webhooks.map(({ id, url }) => [id, url]))}
        value={webhook}
        onChange={setWebhook}
      />
      <TimeField label="Events from" value={since} onChange={setSince} />
      <TimeField label="Until" value={until} onChange={setUntil} />
      <p className="small muted">Both times are in the time zone of this browser: {zoneText(since)}.</p>
      <div role="status">
        {!isRange && <Notice kind="warning">The start must be before the end.</Notice>}
        {matching !== undefined && (
          <Notice>
            {matching === 0
              ? 'No failed delivery in this time range.'
              : `${deliveriesText(matching)} did not arrive. Nothing has been sent yet.`}
          </Notice>
        )}
      </div>
      {(error ?? counted.error) !== null && <Notice kind="danger">{explain(error ?? counted.error)}</Notice>}
    </Dialog>
  )
}

type Range = { since: string; until: string }

const deliveriesText = (count: number): string => `${countText(count)} ${count === 1 ? 'delivery' : 'deliveries'}`

const mostFailing = (webhooks: readonly Webhook[]): Webhook | undefined =>
  webhooks.toSorted((a, b) => b.health.failed - a.health.failed)[0]

function Progress({
  organization,
  webhookId,
  id,
  onClose,
}: {
  organization: string
  webhookId: string
  id: string
  onClose: () => void
}) {
  const recovery = useQuery({
    queryKey: [organization, 'recoveries', id],
    queryFn: ({ signal }) => client.webhooks.recovery(webhookId, id, { organization, signal }),
    refetchInterval: ({ state }) => (state.data?.status === 'finished' ? false : 1_000),
  })
  const isDone = recovery.data?.status === 'finished'
  return (
    <Dialog
      title={isDone ? 'Redelivery is under way' : 'Putting deliveries in line…'}
      onClose={onClose}
      footer={<Button onClick={onClose}>{isDone ? 'Done' : 'Continue in the background'}</Button>}
    >
      <p role="status">
        {deliveriesText(recovery.data?.redelivered ?? 0)} in line again. The attempts appear in the list, marked “by
        hand”.
      </p>
      {recovery.error !== null && <Notice kind="danger">{explain(recovery.error)}</Notice>}
    </Dialog>
  )
}
