import type { Place } from './command-words.ts'

/** Works with the bash 3.2 of macOS, and needs no bash-completion. */
export function bashScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => `"${path}"`)
  const choices = places.flatMap(({ path, options }) =>
    options
      .filter((option) => option.choices.length > 0)
      .map(({ word, choices }) => `    "${path} ${word}") words="${choices.join(' ')}" ;;`),
  )
  const words = places.map(
    ({ path, commands, options }) =>
      `    "${path}") words="${[...commands, ...options].map(({ word }) => word).join(' ')}" ;;`,
  )
  return `# bash completion for keyhook. Load it with: source <(keyhook completion bash)
_keyhook() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path="" next word words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    next="\${path:+$path }$word"
    case "$next" in
    ${paths.join('|')}) path="$next" ;;
    esac
  done
  case "$path $previous" in
${choices.join('\n')}
    *)
    case "$path" in
${words.join('\n')}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _keyhook keyhook
`
}
