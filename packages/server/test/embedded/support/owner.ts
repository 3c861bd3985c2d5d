// A Keyhook of its own process, to be killed or asked from outside: says what happens on stdout, one JSON line at a time.
import { argv, stdout } from 'node:process'
import { openEmbedded } from '../../../src/embedded/index.ts'

const [dataDir, purpose] = argv.slice(2)
const say = (line: object) => stdout.write(`${JSON.stringify(line)}\n`)

try {
  const embedded = await openEmbedded({
    dataDir: dataDir!,
    purpose: purpose === 'command' ? 'command' : 'serve',
    settings: { fsync: 'off' },
    note: (text) => say({ note: text }),
  })
  embedded.announce('http://localhost:8080')
  say({ ready: true, owned: embedded.owned, connection: embedded.connection })
  process.once('SIGTERM', () => void embedded.stop().then(() => process.exit(0)))
  // A sudden end that cleans up nothing.
  process.once('SIGUSR2', () => process.exit(0))
  // Held open until a signal comes; the hold itself keeps no process alive.
  setInterval(() => {}, 1_000)
} catch (error) {
  say({ error: String(error) })
  process.exitCode = 1
}
