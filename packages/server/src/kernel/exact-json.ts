/*
 * JSON of which every number comes out as it went in. JavaScript's numbers are doubles: of 12345678901234567890 they keep
 * the first sixteen digits, 1e400 becomes null when it is written again, and -0 becomes 0. What somebody asks us to pass on
 * and to sign is not ours to round.
 */

/** RFC 8259 as JavaScript reads it; a number that a double cannot hold stays as it was written, and is only good for writing. */
export function parseExactly(text: string): unknown {
  // Looking at every value takes ten times as long, and nearly nothing has such numbers.
  return mayBeInexact.test(text) ? JSON.parse(text, keepInexact as Reviver) : JSON.parse(text)
}

/** More digits than a double has for certain, an exponent that may be beyond it, or a zero that may have a sign. */
const mayBeInexact = /[\d.]{16}|[eE][+-]?\d{3}|-0/

type Reviver = (key: string, value: unknown) => unknown
/** Newer than the types that come with TypeScript. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): object }

function keepInexact(_key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined) return value
  return canonical(source) === canonical(Object.is(value, -0) ? '0' : String(value)) ? value : rawJSON(source)
}

/** The same text for the same number: sign, digits without zeros at either end, power of ten. */
function canonical(number: string): string {
  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? []
  // Infinity, which JSON has no word for.
  if (whole === undefined) return number
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return significant === '' ? `${sign}0` : `${sign}${significant}e${power}`
}
