import type { Webhook } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { Select } from '../../components/select.tsx'
import { localMinute, TimeField } from '../../components/time-field.tsx'
import { explain } from '../../words/errors.ts'
import { countText } from '../../words/numbers.ts'

type Props = { organization: string; webhooks: readonly Webhook[]; webhookId: string | undefined; onClose: () => void }
type Range = { since: string; until: string }

/** Sends everything of a time range again that did not arrive: first it is counted, then one confirms. */
export function Recover({ organization, webhooks, webhookId, onClose }: Props) {
  const [webhook, setWebhook] = useState(() => webhookId ?? mostFailing(webhooks)?.id ?? '')
  const [since, setSince] = useState(() => localMinute(Date.now() - 86_400_000))
  // The field has minutes: the next one, so that what just failed is in the range.
  const [until, setUntil] = useState(() => localMinute(Date.now() + 60_000))
  const [counted, setCounted] = useState<{ range: Range; matching: number } | null>(null)
  const [started, setStarted] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [isBusy, setBusy] = useState(false)
  const change = (set: (value: string) => void) => (value: string) => {
    setCounted(null)
    set(value)
  }
  const run = (action: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    action()
      .catch(setError)
      .finally(() => setBusy(false))
  }
  const count = () =>
    run(async () => {
      const range = { since: new Date(since).toISOString(), until: new Date(until).toISOString() }
      const { matching } = await client.webhooks.recover(webhook, { ...range, dry_run: true }, { organization })
      setCounted({ range, matching })
    })
  const recover = ({ range }: { range: Range }) =>
    run(async () => {
      const { id } = await client.webhooks.recover(webhook, range, { organization })
      if (id === null) onClose()
      else setStarted(id)
    })
  if (started !== null)
    return <Progress organization={organization} webhookId={webhook} id={started} onClose={onClose} />
  return (
    <Dialog
      title="Recover deliveries"
      description="Sends all events of a time range again that the webhook did not accept. The events are counted first, and sent after you confirm."
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          {counted === null ? (
            <Button look="primary" busy={isBusy} onClick={count}>
              Count
            </Button>
          ) : (
            <Button look="primary" busy={isBusy} disabled={counted.matching === 0} onClick={() => recover(counted)}>
              {counted.matching === 0 ? 'No events to send' : `Send ${countText(counted.matching)} again`}
            </Button>
          )}
        </>
      }
    >
      <Select
        label="Webhook"
        options={Object.fromEntries(webhooks.map(({ id, url }) => [id, url]))}
        value={webhook}
        onChange={change(setWebhook)}
      />
      <TimeField label="From" value={since} onChange={change(setSince)} />
      <TimeField label="Until" value={until} onChange={change(setUntil)} />
      {counted !== null && (
        <Notice kind={counted.matching === 0 ? 'success' : 'info'}>
          {counted.matching === 0
            ? 'The webhook accepted every event of this time range.'
            : `${countText(counted.matching)} ${counted.matching === 1 ? 'event' : 'events'} did not arrive in this range.`}
        </Notice>
      )}
      {error !== null && <Notice kind="danger">{explain(error)}</Notice>}
    </Dialog>
  )
}

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
      title={isDone ? 'Recovery finished' : 'Recovering…'}
      onClose={onClose}
      footer={<Button onClick={onClose}>{isDone ? 'Done' : 'Continue in the background'}</Button>}
    >
      <p role="status">
        {countText(recovery.data?.redelivered ?? 0)} deliveries are in line again. Their attempts appear in the list.
      </p>
      {recovery.error !== null && <Notice kind="danger">{explain(recovery.error)}</Notice>}
    </Dialog>
  )
}
