import { Button } from '../../components/button.tsx'
import { Snippets } from '../../components/code.tsx'
import { CopyButton } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Notice } from '../../components/notice.tsx'
import { Secret } from '../../components/secret.tsx'
import { verificationSnippets } from './verification-snippets.ts'

/** The signing secret: shown here and never again, with what to do with it. */
export function WebhookSecret({ title, secret, onClose }: { title: string; secret: string; onClose: () => void }) {
  return (
    <Dialog
      title={title}
      description="Your endpoint uses this secret to check that a delivery is from us and was not changed."
      onClose={onClose}
      wide
      keepOpen
      footer={
        <>
          <CopyButton text={secret} label="Copy secret" primary />
          <Button onClick={onClose}>Done</Button>
        </>
      }
    >
      <Notice kind="warning">Copy the secret now. It will not be shown again.</Notice>
      <Secret label="Signing secret" text={secret} />
      <div className="stack-small">
        <h3>Check a delivery</h3>
        <p className="small muted">
          Pass the exact bytes of the body, the header <code>X-Service-Signature</code> and the secret.
        </p>
        <Snippets snippets={verificationSnippets} label="Language" />
      </div>
    </Dialog>
  )
}
