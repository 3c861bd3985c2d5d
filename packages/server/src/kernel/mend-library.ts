import { registerHooks } from 'node:module'

/** What stands in a file of a library, and what is to stand there instead. `file`: below node_modules. */
export type Mend = { file: string; from: string; to: string }

/**
 * Imports a library and mends files of it while they are loaded: for faults that cannot be helped from outside and are in the
 * newest release. A release that has changed such a file, or has it no more, is not guessed at: it is refused.
 */
export async function importMended<T>(mends: readonly Mend[], importIt: () => Promise<T>): Promise<T> {
  const missing = new Set(mends.map(({ file }) => file))
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      const file = url.split('/node_modules/').at(-1)!
      if (!missing.delete(file)) return loaded
      const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source)
      return { ...loaded, source: mended(file, source, mends) }
    },
  })
  const library = await importIt().finally(() => hooks.deregister())
  if (missing.size > 0) throw new Error(`Of what was to be mended this was not loaded: ${[...missing].join(', ')}.`)
  return library
}

function mended(file: string, source: string, mends: readonly Mend[]): string {
  return mends
    .filter((mend) => mend.file === file)
    .reduce((text, { from, to }) => {
      if (!text.includes(from)) throw new Error(`${file} is not the one that was to be mended: it has no "${from}".`)
      return text.replaceAll(from, to)
    }, source)
}
