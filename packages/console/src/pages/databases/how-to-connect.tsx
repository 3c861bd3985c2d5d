import { KeyhookError } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { serverUrl } from '../../address.ts'
import { client } from '../../api/client.ts'
import { Snippets } from '../../components/code.tsx'
import { authorityFile, connectionSnippets } from './connection-snippets.ts'

/** Null where the operator has certificates of a public authority. */
const authorityQuery = {
  queryKey: ['database-authority'],
  queryFn: () =>
    client.databases.certificateAuthority().catch((error) => {
      if (error instanceof KeyhookError && error.status === 404) return null
      throw error
    }),
  staleTime: Number.POSITIVE_INFINITY,
}

/** Code that connects with this connection string, and the certificate that it needs. */
export function HowToConnect({ url }: { url: string }) {
  const authority = useQuery(authorityQuery)
  if (authority.isPending) return null
  const hasAuthority = authority.data != null && new URL(url).searchParams.get('sslmode') === 'verify-full'
  return (
    <div className="stack-small">
      {hasAuthority && (
        <p className="small muted">
          Connections are encrypted. Save{' '}
          <a href={`${serverUrl}/${authorityFile}`} download={authorityFile}>
            {authorityFile}
          </a>{' '}
          beside your program: with it, a client knows that it talks to the right server.
        </p>
      )}
      <Snippets snippets={connectionSnippets(url, hasAuthority)} label="How to connect" />
    </div>
  )
}
