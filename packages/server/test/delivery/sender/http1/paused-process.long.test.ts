import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { certificate } from '../../support/receiver.ts'
import { limits, sendingTo } from '../../support/sender.ts'

/** A receiver in another thread, which runs on while this one is paused. It reports each request, and answers it or not. */
async function receiverInThread(answers: boolean) {
  const worker = new Worker(
    `const { parentPort, workerData: { answers, ...certificate } } = require('node:worker_threads')
    const server = require('node:https').createServer(certificate, (request, response) => {
      parentPort.postMessage('requested')
      request.resume()
      if (answers) setTimeout(() => response.end('ok'), 50)
    })
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`,
    { eval: true, workerData: { answers, ...certificate('receiver') } },
  )
  onTestFinished(async () => void (await worker.terminate()))
  const [port] = await once(worker, 'message')
  return { requested: () => once(worker, 'message'), send: sendingTo(`https://127.0.0.1:${port}/`) }
}

/** Blocks this thread, like a stopped process or a sleeping machine. */
const pause = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
const pastDeadlineMs = limits.attemptMsMax + 1_500

test('a response that arrived while the process was paused past the deadline counts', async () => {
  const { send, requested } = await receiverInThread(true)
  const sent = send()
  await requested()
  pause(pastDeadlineMs)
  expect(await sent).toMatchObject({ status: 'succeeded', error: null })
})

test('a request without a response is interrupted, not failed, when the process was paused past the deadline', async () => {
  const silent = await receiverInThread(false)
  const unanswered = silent.send()
  await silent.requested()
  pause(pastDeadlineMs)
  expect(await unanswered).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' } })
  // The same during the handshake.
  const opening = (await receiverInThread(true)).send()
  pause(pastDeadlineMs)
  expect(await opening).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' } })
})
