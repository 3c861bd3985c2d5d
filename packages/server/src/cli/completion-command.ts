import { Argument, type Command } from 'commander'
import { bashScript } from '../terminal/completion/bash.ts'
import { placesOf } from '../terminal/completion/command-words.ts'
import { fishScript } from '../terminal/completion/fish.ts'
import { zshScript } from '../terminal/completion/zsh.ts'
import { examples } from '../terminal/examples.ts'
import { createOutput } from '../terminal/output.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript }
type Shell = keyof typeof scripts

/** The script holds the whole command tree, so that a completion starts no process. */
export function addCompletionCommand(program: Command, whole: () => Promise<Command>): void {
  program
    .command('completion')
    .addHelpText(
      ...examples(
        'source <(npx keyhook completion bash)',
        'npx keyhook completion zsh > ~/.zfunc/_keyhook',
        'npx keyhook completion fish > ~/.config/fish/completions/keyhook.fish',
      ),
    )
    .addArgument(new Argument('<shell>', 'Your shell').choices(Object.keys(scripts)))
    .option('--json', 'Print one line of JSON')
    .action(async (shell: Shell, options: { json?: boolean }) => {
      const script = scripts[shell](placesOf(await whole()))
      createOutput(options.json ?? false).result({ shell, script }, script.trimEnd())
    })
}
