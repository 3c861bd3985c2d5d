import { Counter, type Registry } from 'prom-client'

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
