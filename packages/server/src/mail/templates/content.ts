/** What a mail says. All of it is plain text: the layout escapes it. */
export type Content = {
  subject: string
  paragraphs: readonly string[]
  /** `note`: how long the link works, and how often. */
  link: { label: string; url: string; note: string | null } | null
  /** Why the reader gets this mail. */
  footer: string
}

/** Text of others on one line: no line break may begin a header or look like a paragraph of ours, and nothing turns its direction. */
export function plain(text: string, charsMax = 200): string {
  const line = text.replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu, ' ').trim()
  const chars = [...line]
  return chars.length > charsMax ? `${chars.slice(0, charsMax - 1).join('')}…` : line
}

export const quoted = (name: string): string => `“${plain(name, 100)}”`

/** For mails to strangers: a name that mail programs would show as a link is left out. */
export const quotedForStrangers = (name: string, otherwise: string): string =>
  /[/@:]|\.\S/.test(name) ? otherwise : quoted(name)
