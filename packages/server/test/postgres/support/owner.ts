// Another process with the embedded server, to be killed by a test. Reports on stdout, one JSON line at a time.
import { argv, stdout } from 'node:process'
import { openEmbedded } from '../../../src/postgres/index.ts'

const [dataDir, purpose] = argv.slice(2)
const report = (line: object) => stdout.write(`${JSON.stringify(line)}\n`)

try {
  const embedded = await openEmbedded({
    dataDir: dataDir!,
    purpose: purpose === 'command' ? 'command' : 'serve',
    settings: { fsync: 'off' },
    note: (text) => report({ note: text }),
  })
  embedded.announce('http://localhost:8080')
  report({ ready: true, owned: embedded.owned, connection: embedded.connection })
  process.once('SIGTERM', () => void embedded.stop().then(() => process.exit(0)))
  // Exits without a stop.
  process.once('SIGUSR2', () => process.exit(0))
  // The lock alone does not keep the process alive.
  setInterval(() => {}, 1_000)
} catch (error) {
  report({ error: String(error) })
  process.exitCode = 1
}
