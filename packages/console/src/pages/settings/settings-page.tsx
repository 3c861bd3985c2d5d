import { useMember } from '../../api/organization.ts'
import { PageHeader } from '../../components/page.tsx'
import { DeleteOrganization } from './delete-organization.tsx'
import { OrganizationSettings } from './organization-settings.tsx'
import { OwnSettings } from './own-settings.tsx'
import { Quotas } from './quotas.tsx'

/** One component for each section. */
export function SettingsPage() {
  const organization = useMember()
  return (
    <>
      <PageHeader title="Settings" />
      <div className="stack">
        <OrganizationSettings organization={organization} />
        <Quotas organization={organization} />
        <OwnSettings />
        {organization.can('organizations:delete') && <DeleteOrganization organization={organization} />}
      </div>
    </>
  )
}
