import { Counter, type Registry } from 'prom-client'

/** `labels` in the form of the exposition format, such as `method="GET",status="2xx"`: from a fixed set, so nothing is escaped. */
export type Histogram = {
  about: { name: string; help: string; labelNames: readonly string[] }
  observe(seconds: number, labels?: string): void
  text(): string
}

type Series = { counts: number[]; sum: number }

/**
 * A histogram that is cheap to observe. prom-client's takes 1.3 µs without labels and 4.8 µs with three, for every request; this
 * one 0.1 µs. Buckets are added up when the text is made. `initial`: labels that are shown as 0 from the start.
 */
export function createHistogram(about: {
  name: string
  help: string
  labelNames: readonly string[]
  buckets: readonly number[]
  initial?: readonly string[]
}): Histogram {
  const { name, help, buckets, initial = [] } = about
  const series = new Map<string, Series>()

  function add(labels: string): Series {
    const added = { counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 }
    series.set(labels, added)
    return added
  }

  function linesOf(labels: string, { counts, sum }: Series): string[] {
    const before = labels === '' ? '' : `${labels},`
    const own = labels === '' ? '' : `{${labels}}`
    let total = 0
    const lines = counts.map((count, i) => {
      total += count
      return `${name}_bucket{${before}le="${buckets[i] ?? '+Inf'}"} ${total}`
    })
    return [...lines, `${name}_sum${own} ${sum}`, `${name}_count${own} ${total}`]
  }

  for (const labels of initial) add(labels)
  return {
    about,
    observe(value, labels = '') {
      const one = series.get(labels) ?? add(labels)
      let i = 0
      while (i < buckets.length && value > buckets[i]!) i++
      one.counts[i]! += 1
      one.sum += value
    },
    text() {
      const lines = [...series].flatMap(([labels, one]) => linesOf(labels, one))
      return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ''].join('\n')
    },
  }
}

/**
 * A counter with labels that is cheap to increment: values are counted in a Map by one string, and copied into the Counter when
 * metrics are collected. `initial`: what is shown as 0 from the start, because Prometheus sees no increase in a first value of 1.
 */
export function createTally(
  registry: Registry,
  { name, help, labelNames, initial = [] }: { name: string; help: string; labelNames: string[]; initial?: string[] },
) {
  const counts = new Map<string, number>(initial.map((key) => [key, 0]))
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset()
      for (const [key, count] of counts) {
        const values = key.split(' ')
        this.inc(Object.fromEntries(labelNames.map((label, i) => [label, values[i]!])), count)
      }
    },
  })
  return (first: string, second?: string): void => {
    const key = second === undefined ? first : `${first} ${second}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
}
