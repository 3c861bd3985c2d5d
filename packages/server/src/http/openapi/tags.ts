const descriptions = {
  Guides: 'How to use this server, as Markdown.',
  Organizations: 'The organizations that the caller can reach.',
  'API keys': 'Keys that authenticate as the user who created them, with the current role of that user.',
  Members: 'Who belongs to the organization, and who is invited.',
  Webhooks: 'HTTPS endpoints that receive signed events: their settings, limits, secrets and health.',
  Deliveries: 'Every attempt to send an event; test events, and redelivery of one or many events.',
  'Event log': 'The events of the organization by their numbers, as a list and as a stream.',
  Events: 'What Keyhook sends to a webhook: one POST per event, signed with the secret of the webhook.',
  Databases: 'PostgreSQL databases of the organization.',
  Backups: 'Physical backups of databases.',
  Restores: 'New databases made from backups.',
  Invoices: 'One invoice per month, from metered database hours.',
  'Audit log': 'Every change in the organization.',
  Operator: 'For the operator of the installation. These operations take an operator token and nothing else.',
  Service: 'Health, metrics and this reference. No token, except for metrics where the operator has set one.',
}

export type Tag = keyof typeof descriptions

export const tags = Object.entries(descriptions).map(([name, description]) => ({ name, description }))

/** How reference pages group the tags: by what the operations are about, whichever surface they are on. */
export const tagGroups: { name: string; tags: Tag[] }[] = [
  { name: 'Start', tags: ['Guides'] },
  { name: 'Keys and members', tags: ['Organizations', 'API keys', 'Members'] },
  { name: 'Webhooks and events', tags: ['Webhooks', 'Deliveries', 'Event log', 'Events'] },
  { name: 'Databases', tags: ['Databases', 'Backups', 'Restores'] },
  { name: 'Account', tags: ['Invoices', 'Audit log'] },
  { name: 'Operation', tags: ['Operator', 'Service'] },
]
