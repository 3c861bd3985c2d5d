import { useMutation, useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { consolePath } from '../address.ts'
import { sessionQuery } from '../api/client.ts'
import { authorizeTerminal } from '../api/session.ts'
import { Button } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { explain } from '../words/errors.ts'

/** `npx keyhook login --browser` leads here. The server checks what it asks for; this page only shows it. */
export function AuthorizePage() {
  const session = useQuery({ ...sessionQuery, refetchInterval: false }).data
  const query = new URLSearchParams(location.search)
  const authorize = useMutation({
    mutationFn: () =>
      authorizeTerminal({
        challenge: query.get('challenge') ?? '',
        state: query.get('state') ?? '',
        port: Number(query.get('port')),
      }),
    onSuccess: (address) => location.assign(address),
  })
  useEffect(() => {
    document.title = 'Log in a terminal · Keyhook'
  }, [])
  const user = session?.user
  return (
    <main className="center-page">
      <div className="center-card">
        <h1>Log in a terminal?</h1>
        {user ? (
          <>
            <p>
              The command <code>keyhook login</code> on <strong>{machineName(query.get('machine'))}</strong> asks to act
              as <strong>{user.name ?? user.email ?? user.id}</strong> at <strong>{location.host}</strong>.
            </p>
            <p className="muted">
              Allow this only if you have just run the command yourself. The terminal may do everything that you may do,
              for 12 hours or until you sign out of the console.
            </p>
          </>
        ) : (
          <Notice kind="danger">This is a session of the operator. Sign in as a user to log in a terminal.</Notice>
        )}
        {authorize.error !== null && <Notice kind="danger">{explain(authorize.error)}</Notice>}
        {user && (
          <Button look="primary" busy={authorize.isPending || authorize.isSuccess} onClick={() => authorize.mutate()}>
            Allow
          </Button>
        )}
        <Button onClick={() => location.assign(refusalAddress(query))}>Cancel</Button>
      </div>
    </main>
  )
}

/** The terminal says so itself, so it is shown as short plain text. */
const machineName = (name: string | null): string => name?.replace(/[^\w.-]/g, '').slice(0, 60) || 'this machine'

/** Tells the waiting terminal, which listens on this machine only. Without a port there is none, and the console is shown. */
function refusalAddress(query: URLSearchParams): string {
  const port = Number(query.get('port'))
  if (!(Number.isInteger(port) && port >= 1_024 && port <= 65_535)) return consolePath('/')
  return `http://127.0.0.1:${port}/?${new URLSearchParams({ error: 'access_denied', state: query.get('state') ?? '' })}`
}
