import { serve } from '@hono/node-server'
import { webhookHandler } from '@keyhook/client/hono'
import { Hono } from 'hono'

const app = new Hono()
const secret = process.env.WEBHOOK_SECRET

app.post(
  '/hooks',
  webhookHandler({ secret, onRejected: (error) => console.warn(error.message) }, async (event) => {
    console.log(event.type, event.id)
  }),
)

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`Listening on http://127.0.0.1:${port}/hooks`)
})
