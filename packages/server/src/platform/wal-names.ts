/** The size that initdb chooses; a cluster with another one is not archived. */
export const segmentBytes = 16 * 1024 * 1024
const segmentsPerFile = 2 ** 32 / segmentBytes

const segmentName = /^[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/
const historyName = /^[0-9A-F]{8}\.history$/

export const isHistory = (name: string): boolean => historyName.test(name)

/** The number of a segment, whatever its timeline; null if the name is not that of a segment. */
export function positionOf(name: string): number | null {
  const [, file, segment] = segmentName.exec(name) ?? []
  return file === undefined ? null : Number.parseInt(file, 16) * segmentsPerFile + Number.parseInt(segment!, 16)
}

/** The number of the segment that has this position of the WAL, such as `0/1B81000`. */
export function segmentOf(lsn: string): number {
  const [high, low] = lsn.split('/').map((part) => Number.parseInt(part, 16)) as [number, number]
  return high * segmentsPerFile + Math.floor(low / segmentBytes)
}

/** The number of the first segment that begins at or after this position. */
export const segmentAfter = (lsn: string): number => segmentOf(lsn) + (lsnOf(segmentOf(lsn)) === lsn ? 0 : 1)

export const segmentNamed = (timeline: string, position: number): string =>
  timeline + hex(Math.floor(position / segmentsPerFile)) + hex(position % segmentsPerFile)

/** Where a segment begins. */
export const lsnOf = (position: number): string =>
  `${Math.floor(position / segmentsPerFile)
    .toString(16)
    .toUpperCase()}/${((position % segmentsPerFile) * segmentBytes).toString(16).toUpperCase()}`

/** `end` is not in it. One at a time: a hostile server may claim any position. */
export function* positionsBetween(first: number, end: number): Generator<number> {
  for (let position = first; position < end; position++) yield position
}

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0')
