/** Says what is wrong with a name that people read, or null. Such names end up in terminals, logs and pages. */
export function labelProblem(text: string): string | null {
  if (text.trim() === '') return 'must not be blank'
  if (/[\p{Cc}\p{Cs}]/u.test(text)) return 'must not contain control characters or broken Unicode'
  return null
}
