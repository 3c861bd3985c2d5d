import { Toast } from '@base-ui/react/toast'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { explain } from '../words/errors.ts'
import { IconButton } from './button.tsx'

const manager = Toast.createToastManager()

export function showToast(toast: { title: string; description?: string; type?: 'error' | 'done' }): void {
  manager.add({ timeout: toast.type === 'error' ? 10_000 : 4_000, ...toast })
}

/** For actions without a form that could show the error. */
export const toastError = (title: string) => (error: unknown) =>
  showToast({ title, description: explain(error), type: 'error' })

export function Toasts({ children }: { children: ReactNode }) {
  return (
    <Toast.Provider toastManager={manager}>
      {children}
      <Toast.Portal>
        <Toast.Viewport className="toasts">
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  )
}

function ToastList() {
  const { toasts } = Toast.useToastManager()
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className="toast" data-type={toast.type}>
      <Toast.Content className="grow">
        <Toast.Title className="toast-title" />
        <Toast.Description className="toast-description break" />
      </Toast.Content>
      <Toast.Close
        render={
          <IconButton label="Close">
            <X size={15} aria-hidden="true" />
          </IconButton>
        }
      />
    </Toast.Root>
  ))
}
