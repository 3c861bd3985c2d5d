import { Dialog as Base } from '@base-ui/react/dialog'
import type { CurrentOrganization } from '../api/organization.ts'
import { Sidebar } from './sidebar.tsx'

type DrawerProps = { organization: CurrentOrganization; openPalette: () => void; onClose: () => void }

/** The sidebar of a narrow window. Open while it is rendered. */
export default function Drawer({ organization, openPalette, onClose }: DrawerProps) {
  return (
    <Base.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className="drawer" aria-label="Menu">
          <Sidebar
            organization={organization}
            openPalette={() => {
              onClose()
              openPalette()
            }}
          />
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
