import { type Content, plain } from './content.ts'

const brand = 'Keyhook'

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => escapes[char]!)

export const subjectOf = ({ subject }: Content): string => plain(subject, 150)

export function renderText({ paragraphs, link, footer }: Content): string {
  const linked = link === null ? [] : [`${link.label}:\n${link.url}`, ...(link.note === null ? [] : [link.note])]
  return `${[...paragraphs, ...linked, `-- \n${footer}`].join('\n\n')}\n`
}

const fonts = "-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"

/** Styles are inline, and nothing is loaded: mail programs ignore the first and block the second. */
export function renderHtml(content: Content): string {
  const { paragraphs, link, footer } = content
  const paragraph = (text: string, style = 'margin:0 0 16px') => `<p style="${style}">${escapeHtml(text)}</p>`
  const note = 'margin:0 0 16px;opacity:0.75;font-size:14px'
  const parts = paragraphs.map((text) => paragraph(text))
  if (link !== null) {
    const url = escapeHtml(link.url)
    parts.push(
      `<p style="margin:24px 0"><a href="${url}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#2f5bd7;color:#ffffff;text-decoration:none;font-weight:600">${escapeHtml(link.label)}</a></p>`,
      `<p style="${note};word-break:break-all">${url}</p>`,
    )
    if (link.note !== null) parts.push(paragraph(link.note, note))
  }
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>${escapeHtml(subjectOf(content))}</title></head>
<body style="margin:0;padding:24px;font:16px/1.5 ${fonts}">
<div style="max-width:560px;margin:0 auto">
<p style="margin:0 0 24px;font-weight:700">${brand}</p>
${parts.join('\n')}
<p style="margin:32px 0 0;padding-top:16px;border-top:1px solid #888888;opacity:0.75;font-size:13px">${escapeHtml(footer)}</p>
</div></body></html>
`
}
