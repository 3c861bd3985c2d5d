/** What can be said of a webhook, as its form holds it. */
export type WebhookForm = { url: string; description: string; rate_limit: string; event_types: string[] }
