import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** The pages of the repository. Without git, as in a copy of the sources, those of the top and of docs. */
function pages(): string[] {
  const inDocs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) =>
    join('docs', name),
  )
  const known = existsSync(join(root, '.git'))
    ? execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n')
    : readdirSync(root)
  return [...new Set([...known, ...inDocs])].filter((path) => path.endsWith('.md') && existsSync(join(root, path)))
}

/** Relative links of a page, outside of code. */
const linksOf = (markdown: string): string[] =>
  [
    ...markdown
      .replace(/^```[\s\S]*?^```$/gm, '')
      .replace(/`[^`\n]*`/g, '')
      .matchAll(/\]\(([^)\s]+)\)/g),
  ]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target))

/** The anchors of headings, as GitHub makes them. */
const anchorsOf = (markdown: string): string[] =>
  [...markdown.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

test('every link between pages leads to a file, and to a heading of it', () => {
  const broken: string[] = []
  for (const page of pages()) {
    for (const link of linksOf(read(page))) {
      const [file, anchor] = link.split('#') as [string, string?]
      const target = file === '' ? page : normalize(join(dirname(page), file))
      const leads = existsSync(join(root, target)) && (!anchor || anchorsOf(read(target)).includes(anchor))
      if (!leads) broken.push(`${page}: ${link}`)
    }
  }
  expect(broken).toEqual([])
})

test('docs/README.md names every page', () => {
  const named = linksOf(read('docs/README.md'))
  const missing = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md') && name !== 'README.md')
  expect(missing.filter((name) => !named.includes(name))).toEqual([])
})
