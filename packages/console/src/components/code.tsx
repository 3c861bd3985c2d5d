import { Tabs } from '@base-ui/react/tabs'
import type { ReactNode } from 'react'
import { CopyIcon } from './copy.tsx'

export function Code({
  text,
  label = 'Copy',
  wrap = false,
  children,
}: {
  text: string
  label?: string
  wrap?: boolean
  children?: ReactNode
}) {
  return (
    <div className={wrap ? 'code code-wrap' : 'code'}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region has to be reachable with the keyboard */}
      <pre tabIndex={0}>
        <code>{children ?? text}</code>
      </pre>
      <CopyIcon text={text} label={label} />
    </div>
  )
}

/** The same thing in several languages. */
export function Snippets({ snippets, label }: { snippets: readonly { name: string; text: string }[]; label: string }) {
  return (
    <Tabs.Root defaultValue={snippets[0]?.name} className="stack-small">
      <div className="table-scroll">
        <Tabs.List className="segments" aria-label={label}>
          {snippets.map(({ name }) => (
            <Tabs.Tab key={name} value={name}>
              {name}
            </Tabs.Tab>
          ))}
        </Tabs.List>
      </div>
      {snippets.map(({ name, text }) => (
        <Tabs.Panel key={name} value={name}>
          <Code text={text} label={`Copy ${name}`} />
        </Tabs.Panel>
      ))}
    </Tabs.Root>
  )
}

const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g

/** JSON with indentation and colours. Text that is no JSON is shown as it is. */
export function Json({ text, label }: { text: string; label?: string }) {
  const pretty = prettyJson(text)
  if (pretty === null) return <Code text={text} label={label} wrap />
  const parts: ReactNode[] = []
  let end = 0
  for (const match of pretty.matchAll(token)) {
    const [whole, string, colon] = match
    parts.push(pretty.slice(end, match.index))
    const kind =
      string === undefined ? (match[3] === undefined ? 'number' : 'word') : colon === undefined ? 'string' : 'key'
    parts.push(
      <span key={match.index} className={`json-${kind}`}>
        {string ?? whole}
      </span>,
      colon ?? '',
    )
    end = match.index + whole.length
  }
  parts.push(pretty.slice(end))
  return (
    <Code text={pretty} label={label} wrap>
      {parts}
    </Code>
  )
}

function prettyJson(text: string): string | null {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return null
  }
}
