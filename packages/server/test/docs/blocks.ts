export type Block = { language: string; about: string; text: string }

/** The fenced blocks of a Markdown document, in order: ```language about … */
export function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\S*) ?(.*)\n([\s\S]*?)^```$/gm)].map(([, language, about, text]) => ({
    language: language!,
    about: about!,
    text: text!,
  }))
}

/** Removes what differs from run to run: ids, secrets, times, durations, ports. */
export const masked = (output: string): string =>
  output
    .replace(/\b([a-z]{2,3})_[0-7][0-9a-hjkmnp-tv-z]{25}\b/g, '$1_…')
    .replace(/kh_[0-9A-Za-z]{8}(_[0-9A-Za-z]{32})?/g, 'kh_…')
    .replace(/sign-in#[\w-]{43}/g, 'sign-in#…')
    .replace(/whsec_[A-Za-z0-9+/]{43}=/g, 'whsec_…')
    .replace(/"password":"\w{32}"/g, '"password":"…"')
    .replace(/\b\d\d:\d\d:\d\d(?= )/g, '<clock>')
    .replace(/\b\d+ ms\b/g, '<duration>')
    .replace(/\S*\/keyhook-demo-\w+/g, '<folder>')
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z/g, '<time>')
    .replace(/(127\.0\.0\.1:|localhost:|"port":)\d+/g, '$1<port>')
    .trim()
