import { webhookPlugin } from '@keyhook/client/fastify'
import Fastify from 'fastify'

const app = Fastify()

app.register(webhookPlugin, {
  path: '/hooks',
  secret: process.env.WEBHOOK_SECRET,
  onRejected: (error) => console.warn(error.message),
  async handle(event) {
    console.log(event.type, event.id)
  },
})

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' })
console.log(`Listening on http://127.0.0.1:${app.server.address().port}/hooks`)
