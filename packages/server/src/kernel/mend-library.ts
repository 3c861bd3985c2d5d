import { registerHooks } from 'node:module'

/** What stands in a file of a library, and what is to stand there instead. `file`: below node_modules. */
export type Mend = { file: string; from: string; to: string }

/**
 * Mends files of a library while they are loaded: for faults that cannot be helped from outside and are in the newest release.
 * Say it before the library is imported. A release that has changed such a file is not guessed at: it does not load.
 */
export function mendLibrary(mends: readonly Mend[]): void {
  const files = new Set(mends.map(({ file }) => file))
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      const file = url.split('/node_modules/').at(-1)!
      if (!files.has(file)) return loaded
      const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source)
      return { ...loaded, source: mended(file, source, mends) }
    },
  })
}

function mended(file: string, source: string, mends: readonly Mend[]): string {
  return mends
    .filter((mend) => mend.file === file)
    .reduce((text, { from, to }) => {
      if (!text.includes(from)) throw new Error(`${file} is not the one that was to be mended: it has no "${from}".`)
      return text.replaceAll(from, to)
    }, source)
}
