import guide from '../../../../../docs/receiving-webhooks.md?raw'

const names: Record<string, string> = {
  js: 'Node',
  python: 'Python',
  go: 'Go',
  java: 'Java',
  ruby: 'Ruby',
  php: 'PHP',
  csharp: 'C#',
  rust: 'Rust',
  sh: 'Shell',
}

/** What is used before a function of one's own. */
const libraries: Record<string, string> = { client: 'verifyWebhook', standard: 'Standard Webhooks' }

/** The code of docs/receiving-webhooks.md, which the tests run: libraries first, then a function in each language. */
export const verificationSnippets = [...guide.matchAll(/^```(\w+) (verify|client|standard)\n([\s\S]*?)^```/gm)].flatMap(
  ([, language, kind, text]) => {
    const name = libraries[kind!] ?? names[language!]
    return name === undefined ? [] : [{ name, text: text!.trimEnd() }]
  },
)
