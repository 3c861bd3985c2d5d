import { KeyhookError } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { Compass, OctagonAlert } from 'lucide-react'
import { Button } from '../components/button.tsx'
import { EmptyState, ErrorState, LoadingBlock } from '../components/states.tsx'
import { explain } from '../words/errors.ts'

export const PageLoading = () => (
  <div className="card">
    <LoadingBlock />
  </div>
)

export const NotFound = () => (
  <main className="main">
    <Nothing />
  </main>
)

const Nothing = () => (
  <EmptyState
    isPage
    icon={Compass}
    title="This page does not exist"
    action={
      <Link to="/" className="button">
        Go to the start
      </Link>
    }
  >
    The address is wrong, or the record that it shows was deleted.
  </EmptyState>
)

/** The record that a page shows could not be read. */
export function PageFailure(props: { error: unknown; retry: () => unknown; what: string }) {
  const isMissing = props.error instanceof KeyhookError && props.error.status === 404
  return isMissing ? <Nothing /> : <ErrorState isPage {...props} />
}

/** An error in our own code. The rest of the page stays usable. */
export function PageError({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="state" role="alert">
      <OctagonAlert size={26} strokeWidth={1.5} aria-hidden="true" />
      <h1>This page stopped working</h1>
      <p>{explain(error)}</p>
      <div className="row">
        <Button onClick={reset}>Try again</Button>
        <Button onClick={() => location.reload()}>Reload</Button>
      </div>
    </div>
  )
}
