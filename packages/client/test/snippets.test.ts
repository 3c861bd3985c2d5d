import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { blocksOf } from '../../server/test/docs/blocks.ts'
import { bodyOf, vectors } from './support/vectors.ts'
import '../../server/test/kit/server-limits.ts'

/*
 * Runs each snippet of docs/receiving-webhooks.md against the test vectors, where its language is installed. The programs in
 * `snippets/` call the snippet once per line of a file.
 */

type Language = {
  /** The language of the fenced block. */
  name: string
  /** The file that the snippet is saved to, and the program that calls it. */
  files: readonly [snippet: string, program: string]
  /** Succeeds where the snippet can run. */
  isInstalled: string
  run: string
  more?: Record<string, string>
}

const page = readFileSync(new URL('../../../docs/receiving-webhooks.md', import.meta.url), 'utf8')

/** The block with this language that is marked so. */
function snippetIn(language: string, mark = 'verify'): string {
  const found = blocksOf(page).filter((block) => block.language === language && block.about === mark)
  expect(found, `blocks of ${language} marked ${mark}`).toHaveLength(1)
  return found[0]!.text
}

const cargo = '[package]\nname = "snippet"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n'
const project =
  '<Project Sdk="Microsoft.NET.Sdk"><PropertyGroup><OutputType>Exe</OutputType><TargetFramework>$(SnippetFramework)</TargetFramework></PropertyGroup></Project>'

const languages: Language[] = [
  { name: 'js', files: ['verify.mjs', 'main.mjs'], isInstalled: 'node --version', run: 'node main.mjs cases' },
  { name: 'python', files: ['verify.py', 'main.py'], isInstalled: 'python3 --version', run: 'python3 main.py cases' },
  {
    name: 'go',
    files: ['verify.go', 'main.go'],
    isInstalled: 'go version',
    run: 'go run . cases',
    more: { 'go.mod': 'module snippet\n\ngo 1.20\n' },
  },
  {
    name: 'java',
    files: ['Keyhook.java', 'Main.java'],
    isInstalled: 'javac -version',
    run: 'javac Keyhook.java Main.java && java Main cases',
  },
  { name: 'ruby', files: ['verify.rb', 'main.rb'], isInstalled: 'ruby --version', run: 'ruby main.rb cases' },
  { name: 'php', files: ['verify.php', 'main.php'], isInstalled: 'php --version', run: 'php main.php cases' },
  {
    name: 'csharp',
    files: ['Keyhook.cs', 'Program.cs'],
    isInstalled: 'dotnet --version',
    run: 'SnippetFramework=net$(dotnet --version | cut -d . -f 1).0 dotnet run -- cases',
    more: { 'snippet.csproj': project },
  },
  {
    name: 'rust',
    files: ['src/verify.rs', 'src/main.rs'],
    // The crates have to be on this machine: tests download nothing.
    isInstalled: 'cargo fetch --offline',
    run: 'cargo run --offline --quiet cases',
    more: { 'Cargo.toml': cargo + snippetIn('toml') },
  },
  { name: 'sh', files: ['verify.sh', 'main.sh'], isInstalled: 'openssl version', run: 'sh main.sh cases' },
]

const run = promisify(execFile)
const shell = (command: string, cwd: string) => run('sh', ['-c', command], { cwd })

let folder: string
const ran: string[] = []
const skipped: string[] = []

/** A body, its header and all secrets of a vector, on one line. */
const cases = vectors.map(({ headers, secrets }, i) =>
  [`body-${i}`, headers['X-Service-Signature'], ...secrets].join('\t'),
)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'keyhook-snippets-'))
  for (const [i, vector] of vectors.entries()) await writeFile(join(folder, `body-${i}`), bodyOf(vector))
})
afterAll(async () => {
  await rm(folder, { recursive: true })
  console.log(`Snippets that ran: ${ran.join(', ')}. Not installed here: ${skipped.join(', ') || 'none'}.`)
})

test.for(languages)('the $name snippet decides every test vector', async (language, { skip }) => {
  const cwd = join(folder, language.name)
  const [snippet, program] = language.files
  await mkdir(join(cwd, snippet, '..'), { recursive: true })
  await writeFile(join(cwd, snippet), snippetIn(language.name))
  await cp(new URL(`snippets/${program.split('/').at(-1)}`, import.meta.url), join(cwd, program))
  for (const [name, text] of Object.entries(language.more ?? {})) await writeFile(join(cwd, name), text)
  await writeFile(join(cwd, 'cases'), cases.map((line) => `../${line}\n`).join(''))
  const isInstalled = await shell(language.isInstalled, cwd).then(
    () => true,
    () => false,
  )
  if (!isInstalled) {
    skipped.push(language.name)
    return skip(`${language.name} is not installed here`)
  }
  const { stdout } = await shell(language.run, cwd)
  const verdicts = stdout.trim().toLowerCase().split(/\r?\n/)
  expect(verdicts).toHaveLength(cases.length)
  const decided = vectors.map(({ name }, i) => ({ name, isValid: verdicts[i] === 'true' }))
  expect(decided).toEqual(vectors.map(({ name, body_signature_valid: isValid }) => ({ name, isValid })))
  ran.push(language.name)
})

test.each(['client', 'standard'])(
  'the code with the library (%s) accepts what is signed, and nothing else',
  async (mark) => {
    const cwd = await mkdtemp(join(folder, `${mark}-`))
    await symlink(fileURLToPath(new URL('../../../node_modules', import.meta.url)), join(cwd, 'node_modules'))
    const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`
    const body =
      '{"id":"evt_1","type":"invoice.paid","timestamp":"2026-01-31T12:00:00.000Z","data":{"total_minor":4200}}'
    const at = new Date()
    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign('evt_1', at, body),
    }
    const program = `
    const [body, headers] = ${JSON.stringify([body, headers])}
    await receive(body, headers)
    await Promise.resolve().then(() => receive(body + ' ', headers)).catch(() => console.log('refused'))`
    await writeFile(join(cwd, 'receive.mjs'), snippetIn('js', mark) + program)
    const env = { ...process.env, WEBHOOK_SECRET: secret }
    const { stdout } = await run('node', ['--conditions=@keyhook/source', 'receive.mjs'], { cwd, env })
    expect(stdout).toBe('invoice.paid { total_minor: 4200 }\nrefused\n')
  },
)
