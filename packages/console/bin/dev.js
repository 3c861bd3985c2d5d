import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

/*
 * `npm run dev`: builds the console after each change of its sources, into the folder that the server serves, and restarts the server
 * after each change of its own. The browser gets the console as in production, with the same address, cookie and policy.
 */
const at = (path) => fileURLToPath(new URL(path, import.meta.url))

// Vite sets NODE_ENV for itself, and the server should not see it.
const env = { ...process.env }
const watcher = await build({ root: at('..'), logLevel: 'warn', build: { watch: {} } })
// A server that starts before there is a console would not serve it.
await new Promise((resolve) => watcher.on('event', ({ code }) => /^(END|ERROR)$/.test(code) && resolve()))

// SIGINT, because after SIGTERM the server first waits for proxies.
const options = ['--watch-preserve-output', '--watch-kill-signal=SIGINT']
const sources = ['../../server/src', '../../server/sql', '../../client/src'].map((path) => `--watch-path=${at(path)}`)
const command = [...options, ...sources, at('../../server/bin/keyhook.js'), 'serve', ...process.argv.slice(2)]
const server = spawn(process.execPath, command, { stdio: 'inherit', env })
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => server.kill(signal))
const [code] = await once(server, 'exit')
process.exit(code ?? 1)
