import type { Place } from './command-words.ts'

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
/** A colon ends the word in a description of _describe. */
const entry = (word: string, summary: string): string => quoted(`${word.replaceAll(':', '\\:')}:${summary}`)

export function zshScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path))
  const choices = places.flatMap(({ path, options }) =>
    options
      .filter((option) => option.choices.length > 0)
      .map(
        ({ word, choices }) =>
          `    ${quoted(`${path} ${word}`)}) compadd -- ${choices.map(quoted).join(' ')}; return ;;`,
      ),
  )
  const words = places.map(({ path, commands, options }) => {
    const entries = [...commands, ...options].map(({ word, summary }) => entry(word, summary))
    return `    ${quoted(path)}) entries=(${entries.join(' ')}) ;;`
  })
  return `#compdef keyhook
# zsh completion for keyhook. Load it with: source <(keyhook completion zsh)
_keyhook() {
  local command_path="" next word previous="\${words[CURRENT-1]}"
  local -a entries
  for word in "\${words[@]:1:$((CURRENT-2))}"; do
    next="\${command_path:+$command_path }$word"
    case "$next" in
    ${paths.join('|')}) command_path="$next" ;;
    esac
  done
  case "$command_path $previous" in
${choices.join('\n')}
  esac
  case "$command_path" in
${words.join('\n')}
  esac
  _describe 'keyhook' entries || _files
}
if [ "\${funcstack[1]}" = "_keyhook" ]; then _keyhook "$@"; else compdef _keyhook keyhook; fi
`
}
