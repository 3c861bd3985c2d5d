/*
 * npm run bench -- auth | deliver
 * Every figure stands beside its limit, measured in the same run, in turns; medians are printed.
 */
const benches: Record<string, () => Promise<void>> = {
  auth: async () => (await import('./auth.ts')).benchAuth(),
  deliver: async () => (await import('./deliver.ts')).benchDeliver(),
}

const bench = benches[process.argv[2] ?? '']
if (bench === undefined) {
  console.error(`Say which: npm run bench -- ${Object.keys(benches).join(' | ')}`)
  process.exitCode = 2
} else {
  await bench()
}
