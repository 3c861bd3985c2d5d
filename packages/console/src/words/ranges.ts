/** The ranges of time that lists offer, in their order. */
export const rangeTexts = {
  any: 'Any time',
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
}
