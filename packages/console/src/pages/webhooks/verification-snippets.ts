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

/** The functions of docs/receiving-webhooks.md, which the tests run in each language. */
export const verificationSnippets = [...guide.matchAll(/^```(\w+) verify\n([\s\S]*?)^```/gm)].flatMap(
  ([, language, text]) => {
    const name = names[language!]
    return name === undefined ? [] : [{ name, text: text!.trimEnd() }]
  },
)
