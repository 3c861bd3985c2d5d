// Imports run one way: kernel <- domain <- db <- { store, embedded } <- { login, webhooks, platform, operator, http } <- startup <- compose <- cli <- main.
const src = '^packages/server/src'
const client = '^packages/client/src'
const cli = '^packages/cli/src'
const webConsole = '^packages/console/src'
const only = (name, from, allowed) => ({
  name,
  severity: 'error',
  from: { path: `${src}/${from}` },
  to: { path: src, pathNot: allowed.map((folder) => `${src}/${folder}`) },
})

const basis = ['kernel/', 'domain/', 'db/', 'store/', 'embedded/']
const services = [...basis, 'login/', 'webhooks/', 'platform/', 'operator/', 'http/', 'config.ts', 'telemetry/']

const folders = [
  only('kernel-imports-nothing-of-ours', 'kernel/', ['kernel/']),
  only('domain-is-pure', 'domain/', ['kernel/', 'domain/']),
  only('embedded-imports-nothing-of-ours', 'embedded/', ['embedded/']),
  only('db-is-below-store', 'db/', ['kernel/', 'domain/', 'db/']),
  only('store-is-above-db', 'store/', ['kernel/', 'domain/', 'db/', 'store/']),
  only('login-is-above-kernel', 'login/', ['kernel/', 'login/']),
  only('webhooks-are-above-store', 'webhooks/', [...basis, 'log.ts', 'webhooks/']),
  only('platform-is-above-store', 'platform/', [...basis, 'platform/', 'webhooks/publish.ts']),
  only('operator-is-above-store', 'operator/', [...basis, 'operator/']),
  only('http-is-above-store', 'http/', [...basis, 'login/', 'http/']),
  only('settings-import-validators', 'settings/', [
    'domain/',
    'login/issuer-url',
    'db/connection/connection-url',
    'settings/',
  ]),
  only('config-reads-settings', 'config.ts', ['settings/']),
  only('log-imports-nothing-of-ours', 'log.ts', []),
  only('telemetry-is-above-services', 'telemetry/', [...basis, 'http/', 'webhooks/', 'telemetry/']),
  only('startup-is-below-compose', 'startup/', [...basis, 'operator/', 'config.ts', 'startup/']),
  only('compose-is-below-the-command-line', 'compose/', [...services, 'log.ts', 'startup/', 'compose/']),
  only('command-line-is-below-main', 'cli/', [...services, 'startup/', 'compose/', 'log.ts', 'cli/']),
  only('main-starts-the-command-line', 'main.ts', ['cli/']),
]

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, path: [src, cli] }, to: {} },
    ...folders,
    {
      name: 'every-folder-has-a-rule',
      severity: 'error',
      from: { path: src, pathNot: folders.map((folder) => folder.from.path) },
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
      from: { path: src, pathNot: `${src}/webhooks/sender/http1/` },
      to: { path: `${src}/webhooks/sender/http1/`, pathNot: 'http1/client.ts$' },
    },
    {
      name: 'http1-is-used-by-the-sender-only',
      severity: 'error',
      from: { path: src, pathNot: `${src}/webhooks/sender/` },
      to: { path: `${src}/webhooks/sender/http1/` },
    },
    {
      name: 'http1-imports-no-sender',
      severity: 'error',
      from: { path: `${src}/webhooks/sender/http1/` },
      to: { path: `${src}/webhooks/`, pathNot: `${src}/webhooks/sender/http1/` },
    },
    {
      name: 'only-db-imports-the-driver',
      severity: 'error',
      from: { path: src, pathNot: `${src}/db` },
      to: { path: '(^|/)node_modules/pg/' },
    },
    {
      name: 'domain-does-no-io',
      severity: 'error',
      from: { path: `${src}/domain` },
      to: { path: '^(node:)?(fs|net|http|https|child_process|dns|tls)(/|$)' },
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
