import './styles/theme.css'
import './styles/layout.css'
import './styles/buttons.css'
import './styles/fields.css'
import './styles/badges.css'
import './styles/surfaces.css'
import './styles/overlays.css'
import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient, sessionQuery } from './api/client.ts'
import { Toasts } from './components/toasts.tsx'
import { router } from './router.tsx'
import { applyTheme } from './theme.ts'

applyTheme()
// Asked for while the first page loads.
void queryClient.prefetchQuery(sessionQuery)

const root = document.getElementById('root')
if (root === null) throw new Error('The page has no #root.')
createRoot(root).render(
  <StrictMode>
    {/* Inline style elements are refused by the Content-Security-Policy. */}
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <Toasts />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
)
