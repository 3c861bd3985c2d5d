import { Snippets } from '../../components/code.tsx'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { verificationSnippets } from './verification-snippets.ts'

/** The signing secret: shown here and never again, with what to do with it. */
export function WebhookSecret({ title, secret, onClose }: { title: string; secret: string; onClose: () => void }) {
  return (
    <ShownOnce
      title={title}
      description="Your endpoint uses this secret to check that a delivery is from us and was not changed."
      warning="Copy the secret now. It will not be shown again."
      copy={{ text: secret, label: 'Copy secret' }}
      onClose={onClose}
    >
      <Secret label="Signing secret" text={secret} />
      <div className="stack-small">
        <h3>Check a delivery</h3>
        <p className="small muted">
          Pass the exact bytes of the body, the header <code>X-Service-Signature</code> and the secret.
        </p>
        <Snippets snippets={verificationSnippets} label="Language" />
      </div>
    </ShownOnce>
  )
}
