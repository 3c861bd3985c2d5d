import type { Command } from 'commander'

type Word = { word: string; summary: string }

/** What can follow one command: its subcommands and options. */
export type Place = {
  /** `''` for the program itself, `keys create` for a command. */
  path: string
  commands: Word[]
  options: (Word & { choices: string[]; takesValue: boolean })[]
}

/** Every place of the command tree, from which the scripts are made. */
export function placesOf(command: Command, path: string[] = []): Place[] {
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
