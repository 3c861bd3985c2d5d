/** The end of a help text, for `command.addHelpText`. */
export const examples = (...lines: string[]) =>
  [
    'after',
    `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map((line) => `  ${line}`).join('\n')}`,
  ] as const
