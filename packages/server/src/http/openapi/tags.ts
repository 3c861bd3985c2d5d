const descriptions = {
  Organizations: 'The organizations that the caller can reach.',
  Members: 'Who belongs to the organization, and who is invited.',
  'API keys': 'Keys that authenticate as the user who created them, with the current role of that user.',
  Webhooks: 'HTTPS endpoints that receive signed events, and the record of every delivery attempt.',
  'Webhook settings': 'What a webhook is for, its limits, its secrets, and how its deliveries go.',
  Redelivery: 'Test events, redelivery of one or many events, and the history of one event.',
  'Event log': 'The events of the organization by their numbers, as a list and as a stream.',
  Databases: 'PostgreSQL databases of the organization.',
  Backups: 'Physical backups of databases.',
  Restores: 'New databases made from backups.',
  Invoices: 'One invoice per month, from metered database hours.',
  'Audit log': 'Every change in the organization.',
  Operator: 'For the operator of the installation. These operations take an operator token and nothing else.',
  Service: 'Health, metrics and this reference. No token, except for metrics where the operator has set one.',
  Events: 'What Keyhook sends to a webhook: one POST per event, signed with the secret of the webhook.',
}

export type Tag = keyof typeof descriptions

export const tags = Object.entries(descriptions).map(([name, description]) => ({ name, description }))

/** How reference pages group the tags: by who the operations are for. */
export const tagGroups: { name: string; tags: Tag[] }[] = [
  { name: 'Published interface', tags: ['Organizations', 'API keys', 'Webhooks', 'Events'] },
  {
    name: 'Platform',
    tags: [
      'Members',
      'Webhook settings',
      'Redelivery',
      'Event log',
      'Databases',
      'Backups',
      'Restores',
      'Invoices',
      'Audit log',
    ],
  },
  { name: 'Operation', tags: ['Operator', 'Service'] },
]
