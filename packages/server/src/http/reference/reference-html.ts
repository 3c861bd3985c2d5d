import type { Json } from '../openapi/openapi-node.ts'

export const escapeHtml = (text: unknown): string =>
  String(text ?? '').replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!)

/** The little Markdown that descriptions are written in: code, and bold in the register. */
export const prose = (text: unknown): string =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<b>$1</b>')

/** Where a thing comes from, as a label that leads to the decision. */
export const tag = (node: Json): string => {
  if (node['x-basis'] === 'specified') return '<span class="tag specified">specified</span>'
  if (node['x-basis'] !== 'chosen') return ''
  return `<a class="tag" href="#decision-${node['x-decision']}">chosen&nbsp;${node['x-decision']}</a>`
}

/** What was left open inside of a thing, below it. */
export const choicesOf = (node: Json): string => {
  const choices = (node['x-chosen'] as Json[] | undefined) ?? []
  if (choices.length === 0) return ''
  return `<ul class="choices">${choices.map((one) => `<li>${prose(one.description)} ${tag(one)}</li>`).join('')}</ul>`
}

export const table = (rows: readonly string[], kind = 'fields'): string =>
  rows.length === 0 ? '' : `<table class="${kind}">${rows.join('')}</table>`

/** A heading that can be linked to: the sign shows when the pointer is on it. */
export const heading = (level: number, id: string, html: string): string =>
  `<h${level} id="${id}">${html} <a class="anchor" href="#${id}" aria-label="Link to this">#</a></h${level}>`
