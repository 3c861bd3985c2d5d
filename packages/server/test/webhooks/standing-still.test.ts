import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'
import { createReceiverConnections } from '../../src/webhooks/sending/receiver-connections.ts'
import { certificate } from './support/receiver.ts'
import { connectWith, idleConnections, limits } from './support/sender.ts'

/** A receiver that goes on while this thread stands still. It says when a request has come, and then answers it, or not. */
async function receiverBeside(answers: boolean) {
  const worker = new Worker(
    `const { parentPort, workerData: { answers, ...certificate } } = require('node:worker_threads')
    const server = require('node:https').createServer(certificate, (request, response) => {
      parentPort.postMessage('asked')
      request.resume()
      if (answers) setTimeout(() => response.end('ok'), 50)
    })
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`,
    { eval: true, workerData: { answers, ...certificate('receiver') } },
  )
  onTestFinished(async () => void (await worker.terminate()))
  const [port] = await once(worker, 'message')
  const receiver = createReceiverConnections(new URL(`https://127.0.0.1:${port}/`), {
    connect: connectWith(),
    limits,
    idleConnections,
    now: Date.now,
  })
  onTestFinished(() => receiver.close())
  return {
    asked: () => once(worker, 'message'),
    send: () => new Promise<Exchange>((done) => receiver.send([], Buffer.from('{}'), done)),
  }
}

/** As a stopped process does, or one whose machine sleeps. */
const standStill = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
const pastEveryDeadlineMs = limits.attemptMsMax + 1_500

test('an answer that came while the sender stood still past its deadline counts', async () => {
  const { send, asked } = await receiverBeside(true)
  const sent = send()
  await asked()
  standStill(pastEveryDeadlineMs)
  expect(await sent).toMatchObject({ status: 'succeeded', error: null })
})

test('an exchange that the sender held up itself is interrupted, and no try of its receiver', async () => {
  const silent = await receiverBeside(false)
  const unanswered = silent.send()
  await silent.asked()
  standStill(pastEveryDeadlineMs)
  expect(await unanswered).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' } })
  // In the middle of a handshake, which needs both sides.
  const opening = (await receiverBeside(true)).send()
  standStill(pastEveryDeadlineMs)
  expect(await opening).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' } })
})
