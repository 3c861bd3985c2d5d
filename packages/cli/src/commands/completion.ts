import { Argument, type Command } from 'commander'
import { createOutput } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript }
type Shell = keyof typeof scripts

/** The script holds the whole command tree, so that a completion starts no process. */
export function addCommands(program: KeyhookCommand, whole: () => Promise<Command>): void {
  program
    .command('completion')
    .examples(
      'source <(npx keyhook completion bash)',
      'npx keyhook completion zsh > ~/.zfunc/_keyhook',
      'npx keyhook completion fish > ~/.config/fish/completions/keyhook.fish',
    )
    .addArgument(new Argument('<shell>', 'The shell that loads the script').choices(Object.keys(scripts)))
    .option('--json', 'Print the script as one line of JSON')
    .action(async (shell: Shell, options: { json?: boolean }) => {
      const script = scripts[shell](placesOf(await whole()))
      createOutput(options).result({ shell, script }, script.trimEnd())
    })
}

type Word = { word: string; summary: string }

/** What can follow one command: its subcommands and options. */
type Place = {
  /** `''` for the program itself, `keys create` for a command. */
  path: string
  commands: Word[]
  options: (Word & { choices: string[]; takesValue: boolean })[]
}

/** Every place of the command tree, from which the scripts are made. */
function placesOf(command: Command, path: string[] = []): Place[] {
  const commands = command.commands.map((one) => ({ word: one.name(), summary: one.description() }))
  const options = command.options.map((option) => ({
    word: option.long!,
    summary: option.description,
    choices: option.argChoices ?? [],
    takesValue: option.required || option.optional,
  }))
  const here: Place = {
    path: path.join(' '),
    commands,
    options: [...options, { word: '--help', summary: 'Show this help', choices: [], takesValue: false }],
  }
  return [here, ...command.commands.flatMap((child) => placesOf(child, [...path, child.name()]))]
}

const pathsOf = (places: readonly Place[], quoted: (path: string) => string): string[] =>
  places.filter(({ path }) => path !== '').map(({ path }) => quoted(path))

/** The options with fixed values, after the path of their command. */
const choicesOf = (places: readonly Place[]): { at: string; choices: string[] }[] =>
  places.flatMap(({ path, options }) =>
    options
      .map(({ word, choices }) => ({ at: `${path} ${word}`, choices }))
      .filter(({ choices }) => choices.length > 0),
  )

/** Works with the bash 3.2 of macOS, and needs no bash-completion. */
function bashScript(places: readonly Place[]): string {
  const choices = choicesOf(places).map(({ at, choices }) => `    "${at}") words="${choices.join(' ')}" ;;`)
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
    ${pathsOf(places, (path) => `"${path}"`).join('|')}) path="$next" ;;
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

const shQuoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
/** A colon ends the word in a description of _describe. */
const zshEntry = (word: string, summary: string): string => shQuoted(`${word.replaceAll(':', '\\:')}:${summary}`)

function zshScript(places: readonly Place[]): string {
  const choices = choicesOf(places).map(
    ({ at, choices }) => `    ${shQuoted(at)}) compadd -- ${choices.map(shQuoted).join(' ')}; return ;;`,
  )
  const words = places.map(({ path, commands, options }) => {
    const entries = [...commands, ...options].map(({ word, summary }) => zshEntry(word, summary))
    return `    ${shQuoted(path)}) entries=(${entries.join(' ')}) ;;`
  })
  return `#compdef keyhook
# zsh completion for keyhook. Load it with: source <(keyhook completion zsh)
_keyhook() {
  local command_path="" next word previous="\${words[CURRENT-1]}"
  local -a entries
  for word in "\${words[@]:1:$((CURRENT-2))}"; do
    next="\${command_path:+$command_path }$word"
    case "$next" in
    ${pathsOf(places, shQuoted).join('|')}) command_path="$next" ;;
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

const fishQuoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options }) => {
    const at = `-n ${fishQuoted(`__keyhook_at ${fishQuoted(path)}`)}`
    return [
      ...commands.map(
        ({ word, summary }) => `complete -c keyhook -f ${at} -a ${fishQuoted(word)} -d ${fishQuoted(summary)}`,
      ),
      ...options.map(({ word, summary, choices, takesValue }) => {
        const value = choices.length > 0 ? ` -x -a ${fishQuoted(choices.join(' '))}` : takesValue ? ' -r' : ' -f'
        return `complete -c keyhook ${at} -l ${word.slice(2)}${value} -d ${fishQuoted(summary)}`
      }),
    ]
  })
  return `# fish completion for keyhook. Load it with: keyhook completion fish | source
function __keyhook_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    if contains -- "$next" ${pathsOf(places, fishQuoted).join(' ')}
      set at $next
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}
