import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { expect, test } from 'vitest'
import { activeTraceparent, contextOf, inSpan, isTracing } from '../../src/lib/tracing.ts'
import { deliveryTest } from '../delivery/support/delivery-test.ts'
import '../kit/server-limits.ts'

test('without an address of a collector, work runs without spans and no SDK is loaded', async () => {
  const file = fileURLToPath(new URL('../../src/cli/serve-command.ts', import.meta.url))
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context)
      const [, scoped] = /node_modules\\/(@opentelemetry\\/[^/]+)/.exec(found.url) ?? []
      if (scoped) loaded.add(scoped)
      return found
    } })
    await import(${JSON.stringify(file)})
    console.log(JSON.stringify([...loaded]))`
  const args = ['--conditions=@keyhook/source', '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  expect(JSON.parse(stdout)).toEqual(['@opentelemetry/api'])
  expect([isTracing(), activeTraceparent()]).toEqual([false, null])
  expect(await inSpan('work', {}, async () => trace.getActiveSpan() ?? 'no span')).toBe('no span')
})

test('nothing about a trace is stored with an event unless traces are exported', async () => {
  const world = await deliveryTest()
  await world.publishOne()
  expect(await world.db`select traceparent from keyhook.events`).toEqual([{ traceparent: null }])
})

test.each([null, undefined, '', 'x', '00-00-00-01', `01-${'a'.repeat(32)}-${'b'.repeat(16)}-01`])(
  'a stored context that cannot be read (%s) starts no trace',
  (stored) => {
    expect(contextOf(stored)).toBe(ROOT_CONTEXT)
    const good = contextOf(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`)
    expect(trace.getSpanContext(good)).toMatchObject({ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 })
  },
)
