/** The problem with an e-mail address that is a label, or null. */
export const emailProblem = (text: string): string | null =>
  /^[^\s@]+@[^\s@]+$/.test(text) ? null : 'must be an e-mail address'

/** The problem with a display name, or null. Such names are shown in terminals, logs and pages. */
export function labelProblem(text: string): string | null {
  // U+2800 is Braille without dots: a letter in Unicode, but invisible.
  if (/^[\s\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text)) return 'must not be blank'
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) return 'must not contain control characters or broken Unicode'
  // These reverse the rest of the line in a terminal. Marks that languages need (U+200C to U+200F) are allowed.
  if (/[\u202a-\u202e\u2066-\u2069]/u.test(text)) return 'must not contain characters that turn the direction of text'
  return null
}
