import { type MouseEvent, useState } from 'react'
import { consolePath } from '../address.ts'
import { startSingleSignOn } from '../api/session.ts'
import { explain } from '../words/errors.ts'
import { Notice } from './notice.tsx'

/** Leads to the OpenID issuer, and back to a page of the console. */
export function SingleSignOn({ returnTo }: { returnTo: string }) {
  const [error, setError] = useState<unknown>(null)
  function start(event: MouseEvent): void {
    if (returnTo === '') return
    event.preventDefault()
    // The page may have a secret in its address, so it is not a part of a link.
    startSingleSignOn(returnTo).then((url) => location.assign(url), setError)
  }
  return (
    <>
      {error !== null && <Notice kind="danger">{explain(error)}</Notice>}
      <a className="button button-primary" href={consolePath('/login')} onClick={start}>
        Continue with single sign-on
      </a>
    </>
  )
}
