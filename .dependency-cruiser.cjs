// Imports run one way: a component imports only those before it in this list. ARCHITECTURE.md says what each is.
const order = [
  'lib',
  'db',
  'postgres',
  'archives',
  'access',
  'http',
  'mail',
  'delivery',
  'keys',
  'organizations',
  'login',
  'webhooks',
  'jobs',
  'databases',
  'backups',
  'billing',
  'deletion',
  'operator',
  'telemetry',
  'settings',
  'startup',
  'compose',
  'cli',
]
const src = '^packages/server/src'
const client = '^packages/client/src'
const cli = '^packages/cli/src'
const webConsole = '^packages/console/src'

const folders = order.map((name, place) => ({
  name: `${name}-imports-only-what-is-before-it`,
  severity: 'error',
  from: { path: `${src}/${name}/` },
  to: { path: src, pathNot: order.slice(0, place + 1).map((folder) => `${src}/${folder}/`) },
}))

const only = (name, from, allowed) => ({
  name,
  severity: 'error',
  from: { path: `${src}/${from}` },
  to: { path: src, pathNot: allowed.map((folder) => `${src}/${folder}`) },
})

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, path: [src, cli] }, to: {} },
    ...folders,
    only('settings-import-validators', 'settings/', [
      'lib/',
      'delivery/retry-schedule',
      'db/connection-url',
      'settings/',
    ]),
    only('main-starts-the-command-line', 'main.ts', ['cli/']),
    {
      name: 'every-folder-has-a-rule',
      severity: 'error',
      from: { path: src, pathNot: [...folders.map((folder) => folder.from.path), `${src}/main.ts`] },
      to: {},
    },
    {
      name: 'client-imports-nothing-else',
      comment: 'It runs in browsers and workers too: no packages, no Node modules.',
      severity: 'error',
      from: { path: client },
      to: { pathNot: client },
    },
    {
      name: 'console-works-over-the-client',
      severity: 'error',
      from: { path: webConsole },
      to: { path: '^packages/', pathNot: [webConsole, client] },
    },
    {
      name: 'nothing-imports-the-console',
      severity: 'error',
      from: { path: '^packages/', pathNot: '^packages/console/' },
      to: { path: webConsole },
    },
    {
      name: 'only-commands-import-the-client',
      severity: 'error',
      from: { path: src, pathNot: `${src}/cli/` },
      to: { path: client },
    },
    {
      name: 'cli-works-over-the-client',
      severity: 'error',
      from: { path: cli },
      to: { path: '^packages/', pathNot: [cli, client] },
    },
    {
      name: 'cli-has-two-entries',
      comment: 'index.ts is for commands, receiver.ts for the demo.',
      severity: 'error',
      from: { path: '^packages/[^/]+/src', pathNot: cli },
      to: { path: cli, pathNot: [`${cli}/index.ts$`, `${cli}/receiver.ts$`] },
    },
    {
      name: 'only-commands-import-the-cli',
      severity: 'error',
      from: { path: src, pathNot: [`${src}/cli/`, `${src}/main.ts$`] },
      to: { path: cli },
    },
    {
      name: 'http1-has-one-interface',
      severity: 'error',
      from: { path: src, pathNot: `${src}/delivery/sender/http1/` },
      to: { path: `${src}/delivery/sender/http1/`, pathNot: 'http1/client.ts$' },
    },
    {
      name: 'http1-is-used-by-the-sender-only',
      severity: 'error',
      from: { path: src, pathNot: `${src}/delivery/sender/` },
      to: { path: `${src}/delivery/sender/http1/` },
    },
    {
      name: 'http1-imports-no-sender',
      severity: 'error',
      from: { path: `${src}/delivery/sender/http1/` },
      to: { path: `${src}/delivery/`, pathNot: [`${src}/delivery/sender/http1/`, `${src}/delivery/send-errors.ts`] },
    },
    {
      name: 'only-db-imports-the-driver',
      severity: 'error',
      from: { path: src, pathNot: `${src}/db` },
      to: { path: '(^|/)node_modules/pg/' },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    // What `npm pack` builds.
    exclude: { path: '^packages/[^/]+/dist/' },
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['@keyhook/source', 'import', 'node', 'default'],
    },
  },
}
