import { randomBytes } from 'node:crypto'

/** In the format of Standard Webhooks. The specified signature uses the whole text as its key, prefix included. */
export const mintWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** How long a pause lasts, and at most. Events of a paused webhook wait however long, so the limit is for their receivers. */
export const pauseMsDefault = 7 * 86_400_000

/** How long two secrets are valid: at most and before a switch, and after it. */
export const overlapSecondsMax = 30 * 86_400
export const afterSwitchSecondsDefault = 86_400

/** Deliveries per second. */
export const rateLimitMin = 0.1
export const rateLimitMax = 1_000
