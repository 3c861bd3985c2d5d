const whole = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

export const countText = (count: number): string => whole.format(count)

/** "12.5 ms" or "1.2 s". */
export function msText(ms: number | null): string {
  if (ms === null) return '–'
  return ms < 1_000 ? `${short.format(ms)} ms` : `${short.format(ms / 1_000)} s`
}

const byteUnits = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

/** In the units of the server's own texts and settings, so that a limit is the same number everywhere. */
export function bytesText(bytes: number | null): string {
  if (bytes === null) return '–'
  let size = bytes
  let unit = 0
  while (size >= 1_024 && unit < byteUnits.length - 1) {
    size /= 1_024
    unit++
  }
  return `${short.format(size)} ${byteUnits[unit]}`
}
