import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { type EventType, sampleData } from '../../src/delivery/events.ts'
import { eventBody, publishEvents } from '../../src/delivery/publish.ts'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { until } from '../kit/until.ts'
import { blocksOf, masked } from './blocks.ts'

/*
 * Runs the commands and the code about events of docs/receiving-webhooks.md.
 */

const api = ownedApi()
const root = fileURLToPath(new URL('../../../..', import.meta.url))
const page = readFileSync(join(root, 'docs/receiving-webhooks.md'), 'utf8')
const blocks = blocksOf(page)
const textOf = (language: string, about: string) =>
  blocks.filter((one) => one.language === language && one.about === about).map((one) => one.text)
const run = promisify(execFile)
let environment: Record<string, string>

/** The body of an event is cut short on the page. */
const shortened = (output: string) => masked(output).replace(/(\\"id\\":\\"evt_…\\",).*?\}\}"/g, '$1 …}"')

beforeAll(async () => {
  const types: EventType[] = ['database.created', 'database.failed', 'backup.completed', 'invoice.paid']
  const events = types.map((type) => {
    const id = newId('evt')
    return { id, type, body: eventBody({ id, type, at: new Date(), data: sampleData(type) }) }
  })
  await publishEvents(api.db, api.orgId, events)
  const { PATH = '' } = process.env
  environment = { PATH, KEYHOOK_URL: api.url, KEYHOOK_TOKEN: api.owner.token, KEYHOOK_ORG: api.orgId }
})

test('the event of the page has the body of a test event', () => {
  const [shown] = textOf('json', 'event').map((text) => JSON.parse(text))
  expect(shown).toEqual({ ...shown, type: 'database.created', data: sampleData('database.created') })
  expect(Object.keys(shown)).toEqual(['id', 'type', 'timestamp', 'data'])
})

test('the commands print what the page shows', async () => {
  const [list, range] = textOf('sh', 'run')
  const printed = (await run('sh', ['-c', list!], { env: environment })).stdout
  expect(shortened(JSON.stringify(JSON.parse(printed), null, 2))).toBe(textOf('json', 'output')[0]!.trim())
  const between = JSON.parse((await run('sh', ['-c', range!], { env: environment })).stdout)
  expect(between.map((one: { sequence: number }) => one.sequence)).toEqual([2, 3])
})

test('the stream prints what the page shows', async () => {
  const child = spawn('sh', ['-c', `exec ${textOf('sh', 'stream')[0]}`], { env: environment })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text
  })
  await until(() => printed.includes('data: '))
  child.kill()
  expect(shortened(printed)).toBe(textOf('text', 'output')[0]!.trim())
})

test('the 410 is the one of the page', async () => {
  await api.db`insert into keyhook.expired_events values (${api.orgId}, 3)`
  const url = `${api.url}/platform/v1/organizations/${api.orgId}/events?after=1`
  const { body } = await call(url, { token: api.owner.token })
  await api.db`delete from keyhook.expired_events`
  expect(body).toEqual(JSON.parse(textOf('json', 'problem')[0]!))
})

test('the receiver of the page fetches what it missed, and handles nothing twice', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-events-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await mkdir(join(folder, 'node_modules/@keyhook'), { recursive: true })
  await symlink(join(root, 'packages/client'), join(folder, 'node_modules/@keyhook/client'))
  const deliveries = `
    const deliver = (sequence, previous) =>
      onDelivery({ 'x-service-sequence': sequence, 'x-service-previous-sequence': previous }, { type: 'delivered' })
    await deliver('4', undefined)
    await deliver('3', '2')
    await deliver('1', undefined)
    await deliver('3', '2')`
  const file = join(folder, 'receive.mjs')
  await writeFile(file, textOf('js', 'run')[0]! + deliveries)
  const { stdout } = await run(process.execPath, ['--conditions=@keyhook/source', file], { env: environment })
  expect(stdout.trim().split('\n')).toEqual([
    'handled 4 delivered',
    'handled 1 database.created',
    'handled 2 database.failed',
    'handled 3 backup.completed',
  ])
})
