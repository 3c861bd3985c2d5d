import { webhookHandler } from '@keyhook/client/express'
import express from 'express'

const app = express()
const secret = process.env.WEBHOOK_SECRET

// Before express.json(): the signature is that of the raw body.
app.post(
  '/hooks',
  webhookHandler({ secret, onRejected: (error) => console.warn(error.message) }, async (event) => {
    console.log(event.type, event.id)
  }),
)
app.use(express.json())

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}/hooks`)
})
