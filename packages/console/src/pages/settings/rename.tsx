import { client, queryClient, sessionQuery } from '../../api/client.ts'
import { NameDialog } from '../../components/name-dialog.tsx'
import { showToast } from '../../components/toasts.tsx'

type Props = { organization: { id: string; name: string }; onClose: () => void }

export function RenameOrganization({ organization, onClose }: Props) {
  return (
    <NameDialog
      title="Rename the organization"
      description="Its id, its API keys and its addresses stay as they are."
      action="Rename"
      what="organization"
      name={organization.name}
      onSubmit={async (name) => {
        await client.organizations.update(organization.id, { name })
        // The name comes with the session.
        await queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey })
        showToast({ title: `The organization is now called “${name}”` })
        onClose()
      }}
      onClose={onClose}
    />
  )
}
