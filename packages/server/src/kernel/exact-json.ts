/*
 * JSON of which every number comes out as it went in. JavaScript's numbers are doubles: of 12345678901234567890 they keep
 * the first sixteen digits, 1e400 becomes null when it is written again, -0 becomes 0 and 1.50 becomes 1.5. What somebody
 * asks us to pass on and to sign is not ours to write anew.
 */

/** RFC 8259 as JavaScript reads it; a number that JavaScript would write another way stays text, and is only good for writing. */
export function parseExactly(text: string): unknown {
  // Looking at every value takes ten times as long, and few texts have such numbers.
  return mayChange.test(text) ? JSON.parse(text, keepText as Reviver) : JSON.parse(text)
}

/**
 * More digits than a double has for certain, an exponent, a fraction that ends in zero or is so small that it would get an
 * exponent, or a zero that may have a sign.
 */
const mayChange = /[\d.]{16}|\d[eE][+\d-]|\.\d*0(?!\d)|\.0{6}|-0/

/**
 * The same for a record, or a list of records, whose fields hold what is passed on. A number that stays text is an object to
 * whoever asks: as a field, or in the place of a record, it would pass for one.
 */
export function parseRecordsExactly(text: string): unknown {
  const found = parseExactly(text)
  return Array.isArray(found) ? found.map(withPlainFields) : withPlainFields(found)
}

function withPlainFields(record: unknown): unknown {
  if (typeof record !== 'object' || record === null || isKeptText(record)) return plain(record)
  for (const [name, value] of Object.entries(record)) {
    if (isKeptText(value)) Object.assign(record, { [name]: plain(value) })
  }
  return record
}

const plain = (value: unknown): unknown => (isKeptText(value) ? Number(value.rawJSON) : value)

type KeptText = { rawJSON: string }
/** Whether it is a number that stays text. */
export const isKeptText = (value: unknown): value is KeptText => isRawJSON(value)

type Reviver = (key: string, value: unknown) => unknown
/** Newer than the types that come with TypeScript. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): KeptText
  isRawJSON(value: unknown): boolean
}

function keepText(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value !== 'number' || source === undefined || source === String(value) ? value : rawJSON(source)
}
