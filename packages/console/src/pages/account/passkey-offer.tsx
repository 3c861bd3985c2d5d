import { KeySquare } from 'lucide-react'
import { useState } from 'react'
import { queryClient, sessionQuery } from '../../api/client.ts'
import { declinePasskey, hasPasskeys } from '../../api/passkeys.ts'
import { Button } from '../../components/button.tsx'
import { toastError } from '../../components/toasts.tsx'
import { AddPasskey } from './add-passkey.tsx'

/** Once, for somebody who came by a link: the next link would need somebody else. */
export default function PasskeyOffer() {
  const [isAdding, setAdding] = useState(false)
  const decline = () =>
    declinePasskey().then(
      () => queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey }),
      toastError('The offer stays for now'),
    )
  if (!hasPasskeys()) return null
  return (
    <aside className="passkey-offer" aria-label="Add a passkey">
      <KeySquare size={16} aria-hidden="true" />
      <span className="grow">Sign in without a link next time, with your fingerprint or PIN.</span>
      <Button small onClick={() => setAdding(true)}>
        Add a passkey
      </Button>
      <Button small look="ghost" onClick={decline}>
        Not now
      </Button>
      {isAdding && <AddPasskey onClose={() => setAdding(false)} />}
    </aside>
  )
}
