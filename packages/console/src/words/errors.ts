import { KeyhookError } from '@keyhook/client'

/** An error of a call in plain words. */
export function explain(error: unknown): string {
  if (!(error instanceof KeyhookError)) return error instanceof Error ? error.message : String(error)
  if (error.code === 'client.network')
    return 'The server cannot be reached. Check that it is running and that you are online.'
  if (error.code === 'client.timeout') return 'The server did not answer in time.'
  if (error.code === 'client.unexpected_response')
    return 'The server could not answer. It may be restarting, or a proxy in front of it failed. Try again shortly.'
  if (error.code === 'auth.permission_missing')
    return 'Your role does not allow this. Ask an owner of the organization.'
  return error.message
}

/** The server's text about a link that signs nobody in any more is for both kinds, which last differently. */
export const explainLink = (error: unknown, minutes: number): string =>
  error instanceof KeyhookError && error.code === 'console.link_invalid'
    ? `The link was used already, or is older than ${minutes} minutes. It works once: you need another one.`
    : explain(error)

/** The server's texts continue the name of the field: "must be from 0.1 to 1,000". */
const sentence = (detail: string): string => (/^[a-z]/.test(detail) ? `This ${detail.replace(/\.?$/, '.')}` : detail)

/** What broke a rule, by the name of the form field. */
export function fieldErrors(error: unknown): Map<string, string> {
  const found = new Map<string, string>()
  if (!(error instanceof KeyhookError)) return found
  for (const one of error.errors) {
    if (!('pointer' in one)) continue
    const name = one.pointer.replace(/^#?\//, '').split('/')[0] ?? ''
    if (!found.has(name)) found.set(name, sentence(one.detail))
  }
  return found
}
