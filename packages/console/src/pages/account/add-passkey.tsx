import { useQuery } from '@tanstack/react-query'
import { queryClient, sessionQuery } from '../../api/client.ts'
import { addPasskey, passkeysQuery } from '../../api/passkeys.ts'
import { NameDialog } from '../../components/name-dialog.tsx'
import { showToast } from '../../components/toasts.tsx'

/** Asks for a name, and then the browser for a finger, a PIN or a security key. */
export function AddPasskey({ onClose }: { onClose: () => void }) {
  const { data } = useQuery(passkeysQuery)
  if (data === undefined) return null
  return (
    <NameDialog
      title="Add a passkey"
      description="Your browser then asks for your fingerprint, your PIN or a security key. With the passkey you sign in without a link."
      action="Add passkey"
      what="passkey"
      name={data.suggested_name}
      hint="So that you recognize it in your account."
      onSubmit={async (name) => {
        await addPasskey(name)
        await queryClient.invalidateQueries({ queryKey: passkeysQuery.queryKey })
        showToast({ title: 'You can sign in with this passkey now' })
        onClose()
        // It is not offered any more.
        await queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey })
      }}
      onClose={onClose}
    />
  )
}
