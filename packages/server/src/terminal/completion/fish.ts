import type { Place } from './command-words.ts'

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

export function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, commands, options }) => {
    const at = `-n ${quoted(`__keyhook_at ${quoted(path)}`)}`
    return [
      ...commands.map(({ word, summary }) => `complete -c keyhook -f ${at} -a ${quoted(word)} -d ${quoted(summary)}`),
      ...options.map(({ word, summary, choices, takesValue }) => {
        const value = choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : takesValue ? ' -r' : ' -f'
        return `complete -c keyhook ${at} -l ${word.slice(2)}${value} -d ${quoted(summary)}`
      }),
    ]
  })
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path))
  return `# fish completion for keyhook. Load it with: keyhook completion fish | source
function __keyhook_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    if contains -- "$next" ${paths.join(' ')}
      set at $next
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}
