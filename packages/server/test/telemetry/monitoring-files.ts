import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const monitoringFolder = fileURLToPath(new URL('../../../../deploy/monitoring', import.meta.url))

type Panel = { title: string; type: string; targets?: { expr: string }[] }

const dashboard = () =>
  JSON.parse(readFileSync(join(monitoringFolder, 'keyhook-dashboard.json'), 'utf8')) as { panels: Panel[] }

/** The panels that show something, with their queries as Prometheus gets them: with values for Grafana's variables. */
export const dashboardPanels = (interval = '1m'): { title: string; queries: string[] }[] =>
  dashboard()
    .panels.filter(({ type }) => type !== 'row')
    .map(({ title, targets = [] }) => ({
      title,
      queries: targets.map(({ expr }) =>
        expr.replaceAll('$__rate_interval', interval).replace(/\$(job|instance)\b/g, '.*'),
      ),
    }))

export const dashboardQueries = (): string[] => dashboardPanels().flatMap(({ queries }) => queries)

export type AlertRule = { alert: string; expr: string; runbook: string }

/** Read line by line: the file is ours, and its form is the same for every rule. */
export function alertRules(): AlertRule[] {
  const text = readFileSync(join(monitoringFolder, 'keyhook.rules.yml'), 'utf8')
  return text
    .split(/^ {6}- alert: /m)
    .slice(1)
    .map((rule) => ({
      alert: rule.split('\n', 1)[0]!,
      expr: /^ {8}expr: (?:\|\n)?([\s\S]*?)\n {8}(?:for|labels):/m.exec(rule)![1]!,
      runbook: /^ {10}runbook_url: (.*)$/m.exec(rule)![1]!,
    }))
}

/** `sum by (job) (x)` as `sum (x)`. */
export const withoutGrouping = (query: string): string => query.replace(/\b(by|ignoring|on|without) \([^)]*\)/g, '')

/** Names of metrics in a query: words with an underscore outside of braces, strings and ranges, that are no functions or labels. */
export function metricsIn(query: string): string[] {
  const bare = withoutGrouping(query.replace(/\{[^}]*\}/g, ''))
  const words = [...bare.matchAll(/\b([a-z][a-z0-9_]*)\b(?!\s*\()/g)].map(([, word]) => word!)
  return words.filter((word) => word === 'up' || word.includes('_'))
}
