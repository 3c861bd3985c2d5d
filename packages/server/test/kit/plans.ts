/** A node of a plan of PostgreSQL. */
type Plan = {
  'Node Type': string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: Plan[]
}

/** The scans of a plan, each with what it read in all its rounds. */
export const scans = (plan: Plan): { type: string; rows: number }[] => [
  ...(plan['Node Type'].includes('Scan')
    ? [
        {
          type: plan['Node Type'],
          rows: (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops'],
        },
      ]
    : []),
  ...(plan.Plans ?? []).flatMap(scans),
]
