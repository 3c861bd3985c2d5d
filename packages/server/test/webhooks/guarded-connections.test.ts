import { describe, expect, test } from 'vitest'
import type { Resolve } from '../../src/webhooks/sending/resolve.ts'
import { receiverFor } from './support/receiver.ts'
import { attempt, connectWith, sendingTo } from './support/sender.ts'

/*
 * Where a request may go is decided by the address that is connected to, however the URL writes it and whatever its name
 * leads to. Which addresses are forbidden, address-guard.test.ts says.
 */

describe('the guard stands before every connection', () => {
  const names =
    (...answers: string[][]): Resolve =>
    () => {
      const answer = answers.length > 1 ? answers.shift()! : answers[0]!
      return {
        addresses: Promise.resolve(answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))),
        cancel() {},
      }
    }

  test.each([
    'https://127.0.0.1/',
    'https://0x7f.1/',
    'https://2130706433/',
    'https://017700000001/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/',
  ])('%s leads nowhere by default', async (url) => {
    const exchange = await attempt(url, connectWith({ allowed: [] }))
    expect(exchange.error?.code).toBe('address_forbidden')
  })

  test('a name with a forbidden address beside a permitted one is reached by the permitted one', async () => {
    const receiver = await receiverFor()
    const port = new URL(receiver.url).port
    const connect = connectWith({ resolve: names(['169.254.169.254', '127.0.0.1', '10.0.0.1']) })
    const exchange = await attempt(`https://a.receiver.test:${port}/`, connect)
    expect(exchange).toMatchObject({ status: 'succeeded', address: '127.0.0.1' })
    expect(exchange.dnsUs).not.toBeNull()
    expect(exchange.tlsUs).not.toBeNull()
  })

  test('the record of a forbidden name does not say where it leads', async () => {
    const connect = connectWith({ resolve: names(['10.1.2.3', '169.254.169.254']) })
    const { error, address } = await attempt('https://db.internal.test/', connect)
    expect(error).toEqual({
      code: 'address_forbidden',
      detail: 'db.internal.test leads to no address that deliveries may go to.',
    })
    expect(address).toBeNull()
  })

  test('a name that changes between look-ups is judged anew for every connection', async () => {
    const receiver = await receiverFor(() => ({ headers: { connection: 'close' } }))
    const port = new URL(receiver.url).port
    const connect = connectWith({ resolve: names(['127.0.0.1'], ['169.254.169.254']) })
    const send = sendingTo(`https://a.receiver.test:${port}/`, connect)
    expect((await send()).status).toBe('succeeded')
    expect((await send()).error?.code).toBe('address_forbidden')
    expect(receiver.received.length).toBe(1)
  })
})
