import type { Webhook } from '@keyhook/client'
import { Check } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshWebhooks } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { Snippets } from '../../components/code.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { Secret } from '../../components/secret.tsx'
import { Select } from '../../components/select.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { TestEvent } from './test-event.tsx'
import { verificationSnippets } from './verification-snippets.ts'
import { WebhookSecret } from './webhook-secret.tsx'

type Props = { organization: string; webhook: Webhook; onClose: () => void }

/** The three steps of a rotation. Which of them is next depends on the webhook alone, so the dialog can be closed between them. */
export function RotateSecret({ organization, webhook, onClose }: Props) {
  const [secret, setSecret] = useState<string | null>(null)
  const [hasLeaked, setHasLeaked] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const rotation = webhook.secret_rotation
  if (secret !== null && hasLeaked)
    return <WebhookSecret title="New signing secret" secret={secret} onClose={onClose} />
  const create = () => {
    setBusy(true)
    client.webhooks
      .rotateSecret(webhook.id, hasLeaked ? { overlap_seconds: 0 } : {}, { organization })
      .then((rotated) => {
        setSecret(rotated.secret)
        return refreshWebhooks(organization)
      }, toastError('The secret was not created'))
      .finally(() => setBusy(false))
  }
  return (
    <Dialog
      title="Rotate the signing secret"
      description="Three steps, so that no delivery is refused. You can close this and continue later."
      onClose={onClose}
      wide
      keepOpen={secret !== null}
      footer={<Button onClick={onClose}>{rotation === null ? 'Cancel' : 'Close'}</Button>}
    >
      <ol className="rotation">
        <Step number={1} title="Create the new secret" isDone={rotation !== null}>
          {rotation === null && (
            <>
              <p className="small muted">Deliveries are signed with the old secret until you switch in step 3.</p>
              <label className="check">
                <input type="checkbox" checked={hasLeaked} onChange={({ target }) => setHasLeaked(target.checked)} />
                <span>
                  If the old secret has leaked, end it at once.{' '}
                  <span className="small muted">Deliveries fail until your endpoint has the new secret.</span>
                </span>
              </label>
              <div>
                <Button look={hasLeaked ? 'danger' : 'primary'} busy={isBusy} onClick={create}>
                  {hasLeaked ? 'Replace the secret now' : 'Create new secret'}
                </Button>
              </div>
            </>
          )}
        </Step>
        <Step number={2} title="Accept both secrets, and send a test event" isDone={rotation?.switched ?? false}>
          {rotation?.switched === false && <AcceptBoth {...{ organization, webhook, secret, isBusy, create }} />}
        </Step>
        <Step number={3} title="Switch to the new secret" isDone={false}>
          {rotation && <Switch {...{ organization, webhook, rotation, onClose }} />}
        </Step>
      </ol>
    </Dialog>
  )
}

type StepProps = { number: number; title: string; isDone: boolean; children: ReactNode }

const Step = ({ number, title, isDone, children }: StepProps) => (
  <li>
    <span className={isDone ? 'rotation-number rotation-done' : 'rotation-number'}>
      {isDone ? <Check size={14} aria-label="Done" /> : number}
    </span>
    <div className="rotation-step grow">
      <h3>{title}</h3>
      {children}
    </div>
  </li>
)

type AcceptBothProps = {
  organization: string
  webhook: Webhook
  secret: string | null
  isBusy: boolean
  create: () => void
}

function AcceptBoth({ organization, webhook, secret, isBusy, create }: AcceptBothProps) {
  return (
    <>
      {secret === null ? (
        <p className="row row-wrap small muted">
          The new secret was shown once, in step 1. Have you lost the new secret?
          <Button small busy={isBusy} onClick={create}>
            Create another
          </Button>
        </p>
      ) : (
        <>
          <Notice kind="warning">Copy the new secret now. It will not be shown again.</Notice>
          <Secret label="New signing secret" text={secret} />
        </>
      )}
      <p className="small muted">
        Deploy code that accepts both secrets. This function takes any number of them; <code>verifyWebhook</code> of{' '}
        <code>@keyhook/client</code> takes them as an array.
      </p>
      <Snippets snippets={verificationSnippets} label="Language" />
      <p className="small muted">Then send a test event, which is signed with the new secret alone.</p>
      <TestEvent
        organization={organization}
        webhookId={webhook.id}
        type={webhook.event_types[0]!}
        accepted="Your endpoint accepts the new secret. You can switch."
        refused="Do not switch yet."
      />
    </>
  )
}

const ends = { '86400': 'In 24 hours', '3600': 'In 1 hour', '604800': 'In 7 days', '0': 'At once' }

type SwitchProps = Props & { rotation: NonNullable<Webhook['secret_rotation']> }

function Switch({ organization, webhook, rotation, onClose }: SwitchProps) {
  const [seconds, setSeconds] = useState<keyof typeof ends>('86400')
  const change = () =>
    client.webhooks.switchSecret(webhook.id, { overlap_seconds: Number(seconds) }, { organization }).then(async () => {
      await refreshWebhooks(organization)
      showToast({ title: 'Deliveries are signed with the new secret' })
      onClose()
    }, toastError('The secret was not switched'))
  return (
    <>
      <p className="small muted">
        {rotation.switched ? (
          <>
            Deliveries are signed with the new secret. The old one ends <RelativeTime at={rotation.ends_at} />; then
            remove it from your code.
          </>
        ) : (
          <>
            <code>X-Service-Signature</code> is then made with the new secret. Without the switch this happens{' '}
            <RelativeTime at={rotation.ends_at} />.
          </>
        )}
      </p>
      <Select label="The old secret ends" options={ends} value={seconds} onChange={setSeconds} />
      <div>
        <Button look={rotation.switched ? 'plain' : 'primary'} onClick={change}>
          {rotation.switched ? 'Change the end' : 'Switch to the new secret'}
        </Button>
      </div>
    </>
  )
}

type NoticeProps = { webhook: Webhook; proceed: (() => void) | null }

/** A rotation that is not over, with its next step. */
export function RotationNotice({ webhook, proceed }: NoticeProps) {
  const rotation = webhook.secret_rotation
  if (rotation === null) return null
  return (
    <Notice>
      <div className="row row-wrap">
        <span className="grow">
          {rotation.switched ? (
            <>
              Deliveries are signed with the new secret. The old one ends <RelativeTime at={rotation.ends_at} />.
            </>
          ) : (
            'A new secret was created. Deliveries are signed with the old one until you switch.'
          )}
        </span>
        {proceed && (
          <Button small onClick={proceed}>
            {rotation.switched ? 'Change the end' : 'Continue the rotation'}
          </Button>
        )}
      </div>
    </Notice>
  )
}
