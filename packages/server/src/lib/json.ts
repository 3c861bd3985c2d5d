/*
 * JSON whose numbers are written exactly as they were read. JavaScript's numbers are doubles: 12345678901234567890 loses digits,
 * 1e400 becomes null, -0 becomes 0 and 1.50 becomes 1.5. Data that we pass on and sign for others must not change.
 */

/** Like JSON.parse, but a number that JavaScript would write differently becomes a raw JSON object, which can only be written. */
export function parseExactly(text: string): unknown {
  // Checking every value takes ten times as long, and few texts have such numbers.
  return mayChange.test(text) ? JSON.parse(text, keepRaw as Reviver) : JSON.parse(text)
}

/**
 * More digits than every double keeps, an exponent, a fraction that ends in zero or is so small that it would get an exponent, or
 * a zero that may have a sign.
 */
const mayChange = /[\d.]{16}|\d[eE][+\d-]|\.\d*0(?!\d)|\.0{6}|-0/

/**
 * The same for a record or a list of records whose fields hold the data that is passed on. Raw JSON is an object to validation, so
 * in the place of a record or of a field it is converted to a plain number.
 */
export function parseRecordsExactly(text: string): unknown {
  const found = parseExactly(text)
  return Array.isArray(found) ? found.map(withPlainFields) : withPlainFields(found)
}

function withPlainFields(record: unknown): unknown {
  if (typeof record !== 'object' || record === null || isRawNumber(record)) return plain(record)
  for (const [name, value] of Object.entries(record)) {
    if (isRawNumber(value)) Object.assign(record, { [name]: plain(value) })
  }
  return record
}

const plain = (value: unknown): unknown => (isRawNumber(value) ? Number(value.rawJSON) : value)

type RawNumber = { rawJSON: string }

export const isRawNumber = (value: unknown): value is RawNumber => isRawJSON(value)

type Reviver = (key: string, value: unknown) => unknown
/** Newer than TypeScript's types. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): RawNumber
  isRawJSON(value: unknown): boolean
}

function keepRaw(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value !== 'number' || source === undefined || source === String(value) ? value : rawJSON(source)
}
