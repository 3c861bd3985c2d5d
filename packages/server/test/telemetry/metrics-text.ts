/** What a `/metrics` page says: the type of every metric, and every sample with its labels. */
export type Sample = { name: string; labels: Record<string, string>; value: number }

export function readMetrics(page: string): { types: Map<string, string>; samples: Sample[] } {
  const types = new Map<string, string>()
  const samples: Sample[] = []
  for (const line of page.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line)
    if (type !== null) types.set(type[1]!, type[2]!)
    const sample = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line)
    if (sample === null) continue
    const labels = [...(sample[2] ?? '').matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, name, value]) => [name!, value!])
    samples.push({ name: sample[1]!, labels: Object.fromEntries(labels), value: Number(sample[3]) })
  }
  return { types, samples }
}

/** The sum of the samples that have these labels; undefined if there is none. */
export function sumOf(page: string, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = readMetrics(page).samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}

/** The metric of a sample: the series of a histogram have endings of their own. */
export const metricOf = (types: ReadonlyMap<string, string>, name: string): string =>
  types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')
