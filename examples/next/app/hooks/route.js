import { webhookHandler } from '@keyhook/client/next'

const secret = process.env.WEBHOOK_SECRET

export const POST = webhookHandler({ secret, onRejected: (error) => console.warn(error.message) }, async (event) => {
  console.log(event.type, event.id)
})
