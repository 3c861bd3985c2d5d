import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { mintApiKey, randomBase62 } from '../../src/lib/secrets.ts'

const configFile = join(import.meta.dirname, '../../../../docs/gitleaks.toml')

const read = async (tag = 'kh') => (await readFile(configFile, 'utf8')).replaceAll('kh_', `${tag}_`)

const part = (config: string, pattern: RegExp): string => pattern.exec(config)![1]!

/** In bits per character, as gitleaks measures it. */
function entropyOf(text: string): number {
  const counts = [...text].reduce((known, one) => known.set(one, (known.get(one) ?? 0) + 1), new Map<string, number>())
  return [...counts.values()].reduce((sum, count) => sum - (count / text.length) * Math.log2(count / text.length), 0)
}

/** What gitleaks does with a rule: keywords in lower case, the regex, and the entropy of its group. */
function finderOf(config: string) {
  const regex = new RegExp(part(config, /^regex = '''(.*)'''$/m), 'g')
  const keyword = part(config, /^keywords = \["(.*)"\]$/m)
  const entropyMin = Number(part(config, /^entropy = (.*)$/m))
  return (text: string): string[] =>
    text.toLowerCase().includes(keyword)
      ? [...text.matchAll(regex)].map(([, secret]) => secret!).filter((secret) => entropyOf(secret) > entropyMin)
      : []
}

const places = (key: string): string[] => [
  key,
  `KEYHOOK_TOKEN=${key}\n`,
  `token: "${key}"`,
  `curl -H 'Authorization: Bearer ${key}' https://example.com`,
  `https://example.com/?key=${key}&more=1`,
]

const nearMisses = (key: string): string[] => [
  key.slice(0, -1),
  `${key}0`,
  key.replace('_', '-'),
  `x${key}`,
  key.toUpperCase(),
  'kh_Example1_ExampleExampleExampleExample0000',
  `kh_${randomBase62(8)}`,
]

test('the rule finds every key, with the default tag and with another, and nothing that only looks like one', async () => {
  for (const tag of ['kh', 'acme', 'a', 'abcdefghi9']) {
    const config = await read(tag)
    const find = finderOf(config)
    for (let i = 0; i < 2_000; i++) {
      const { apiKey } = mintApiKey(tag)
      for (const text of i < 20 ? places(apiKey) : [apiKey]) expect(find(text), text).toEqual([apiKey])
      if (i < 20) for (const text of nearMisses(apiKey)) expect(find(text), text).toEqual([])
    }
  }
})

test('the regex is one of RE2, which gitleaks uses', async () => {
  // RE2 has neither look-around nor references to groups.
  expect(part(await read(), /^regex = '''(.*)'''$/m)).not.toMatch(/\(\?[=!<]|\\[1-9]/)
})

const binary = process.env.KEYHOOK_TEST_GITLEAKS
const run = promisify(execFile)

test.skipIf(binary === undefined)('gitleaks itself finds the same with the rule', async () => {
  for (const tag of ['kh', 'acme']) {
    const folder = await mkdtemp(join(tmpdir(), 'keyhook-gitleaks-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    // Without gitleaks' own rules, some of which find any long text beside the word "token".
    const config = (await read(tag)).replace('useDefault = true', 'useDefault = false')
    // gitleaks reads files in blocks of 10 kB, and misses what lies across two of them.
    const keys = Array.from({ length: 20 }, () => mintApiKey(tag).apiKey)
    await writeFile(join(folder, 'rule.toml'), config)
    await writeFile(join(folder, 'found.txt'), keys.flatMap(places).join('\n'))
    await writeFile(join(folder, 'missed.txt'), keys.flatMap(nearMisses).join('\n'))
    const report = join(folder, 'report.json')
    const source = ['--no-git', '--source', folder, '--config', join(folder, 'rule.toml')]
    await run(binary!, ['detect', ...source, '--report-path', report, '--exit-code', '0'])
    const found = JSON.parse(await readFile(report, 'utf8')) as { Secret: string; File: string }[]
    const inFile = (name: string) => found.filter(({ File }) => File.endsWith(name)).map(({ Secret }) => Secret)
    expect(inFile('missed.txt')).toEqual([])
    expect(inFile('found.txt').sort()).toEqual(keys.flatMap((key) => places(key).map(() => key)).sort())
  }
})
