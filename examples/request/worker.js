import { webhookHandler } from '@keyhook/client/request'

export default {
  async fetch(request, env) {
    const options = { secret: env.WEBHOOK_SECRET, onRejected: (error) => console.warn(error.message) }
    const receive = webhookHandler(options, async (event) => {
      console.log(event.type, event.id)
    })
    return receive(request)
  },
}
