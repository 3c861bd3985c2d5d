import { stripVTControlCharacters, styleText } from 'node:util'

type Format = Parameters<typeof styleText>[0]

/** Colour for a terminal only. `styleText` respects NO_COLOR and FORCE_COLOR. */
export const styled = (format: Format, text: string, stream: NodeJS.WriteStream = process.stdout): string =>
  styleText(format, text, { stream })

/** Text of others in one line: a terminal interprets control characters (CWE-150). */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced.
  text.replace(/[\x00-\x1f\x7f-\x9f]/g, (one) => `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`)

const graphemes = new Intl.Segmenter()
const wide =
  /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|\p{Emoji_Presentation}|[\uff01-\uff60]/u

/** Columns that a text takes on a terminal. */
export function widthOf(text: string): number {
  let columns = 0
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) columns += wide.test(segment) ? 2 : 1
  return columns
}

/** The beginning of a text that fits, with an ellipsis if something is missing. */
export function cut(text: string, columnsMax: number): string {
  if (widthOf(text) <= columnsMax) return text
  let [kept, columns] = ['', 0]
  for (const { segment } of graphemes.segment(text)) {
    columns += widthOf(segment)
    if (columns > columnsMax - 1) break
    kept += segment
  }
  return `${kept}…`
}

/** Columns of the terminal; null where nobody looks, and lines may have any length. */
export const terminalColumns = (stream: NodeJS.WriteStream = process.stdout): number | null =>
  stream.isTTY ? Math.max(40, stream.columns || 80) : null

const statusFormats: Record<string, Format> = {
  active: 'green',
  available: 'green',
  completed: 'green',
  paid: 'green',
  succeeded: 'green',
  failed: 'red',
  failing: 'red',
  suspended: 'red',
  interrupted: 'yellow',
  paused: 'yellow',
  revoked: 'dim',
}

export const statusText = (status: string): string => styled(statusFormats[status] ?? 'reset', status)
