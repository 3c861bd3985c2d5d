import { Code, Json } from '../../components/code.tsx'

/** The header fields of a request or response. */
export function Headers({ headers, first }: { headers: Record<string, unknown>; first: string }) {
  return (
    <div className="stack-small">
      <code className="break">{first}</code>
      <dl className="headers">
        {Object.entries(headers).map(([name, value]) => (
          <div key={name} className="header">
            <dt>{name}</dt>
            <dd>{[value].flat().map(String).join(', ')}</dd>
          </div>
        ))}
      </dl>
    </div>
  )
}

export function Body({ text, isRaw, label }: { text: string; isRaw: boolean; label: string }) {
  if (text === '') return <p className="small muted">The body is empty.</p>
  return isRaw ? <Code text={text} label={label} wrap /> : <Json text={text} label={label} />
}
