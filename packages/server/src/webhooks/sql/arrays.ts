/**
 * An array of numbers, ids or codes as PostgreSQL reads it. Nothing in them needs a quote, and the driver would look for what to
 * escape in each: with thousands of attempts a second that is a twelfth of Node's time.
 */
export const plainArray = (elements: readonly (number | string | boolean | null)[]): string =>
  `{${elements.map((element) => element ?? 'NULL').join(',')}}`
