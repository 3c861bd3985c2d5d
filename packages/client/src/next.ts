/** A route handler: `export const POST = webhookHandler({ secret }, async (event) => { … })` in `app/…/route.ts`. */
export { type ReceiverOptions, webhookHandler } from './request.ts'
