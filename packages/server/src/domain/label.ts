/** Says what is wrong with a name that people read, or null. Such names end up in terminals, logs and pages. */
export function labelProblem(text: string): string | null {
  // U+2800 is Braille without a dot: a letter to Unicode, and nothing to see.
  if (/^[\s\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text)) return 'must not be blank'
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) return 'must not contain control characters or broken Unicode'
  // They make a terminal show the rest of its line backwards; marks that languages need (U+200C to U+200F) are not among them.
  if (/[\u202a-\u202e\u2066-\u2069]/u.test(text)) return 'must not contain characters that turn the direction of text'
  return null
}
