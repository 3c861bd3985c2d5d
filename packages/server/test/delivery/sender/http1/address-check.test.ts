import { describe, expect, test } from 'vitest'
import type { Resolve } from '../../../../src/delivery/sender/http1/client.ts'
import { receiverFor } from '../../support/receiver.ts'
import { attempt, sendingTo } from '../../support/sender.ts'

describe('the address of every connection is checked', () => {
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
  ])('%s is forbidden by default', async (url) => {
    const exchange = await attempt(url, { allowNetworks: [] })
    expect(exchange.error?.code).toBe('address_forbidden')
  })

  test('a name with forbidden and allowed addresses is reached at an allowed one', async () => {
    const receiver = await receiverFor()
    const port = new URL(receiver.url).port
    const resolve = names(['169.254.169.254', '127.0.0.1', '10.0.0.1'])
    const exchange = await attempt(`https://a.receiver.test:${port}/`, { resolve })
    expect(exchange).toMatchObject({ status: 'succeeded', address: '127.0.0.1' })
    expect(exchange.dnsUs).not.toBeNull()
    expect(exchange.tlsUs).not.toBeNull()
  })

  test('the record of a forbidden name does not contain its addresses', async () => {
    const resolve = names(['10.1.2.3', '169.254.169.254'])
    const { error, address } = await attempt('https://db.internal.test/', { resolve })
    expect(error).toEqual({
      code: 'address_forbidden',
      detail: 'db.internal.test leads to no address that deliveries may go to.',
    })
    expect(address).toBeNull()
  })

  test('a name that changes its address is checked again for every connection', async () => {
    const receiver = await receiverFor(() => ({ headers: { connection: 'close' } }))
    const port = new URL(receiver.url).port
    const resolve = names(['127.0.0.1'], ['169.254.169.254'])
    const send = sendingTo(`https://a.receiver.test:${port}/`, { resolve })
    expect((await send()).status).toBe('succeeded')
    expect((await send()).error?.code).toBe('address_forbidden')
    expect(receiver.received.length).toBe(1)
  })
})
