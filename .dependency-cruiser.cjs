// Imports run one way: kernel <- domain <- store <- { login, webhooks, platform, operator, http } <- startup <- compose <- cli <- main.
const src = '^packages/server/src'
const only = (name, from, allowed) => ({
  name,
  severity: 'error',
  from: { path: `${src}/${from}` },
  to: { path: src, pathNot: allowed.map((room) => `${src}/${room}`) },
})

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, path: src }, to: {} },
    only('kernel-imports-nothing-of-ours', 'kernel/', ['kernel/']),
    only('domain-is-pure', 'domain/', ['kernel/', 'domain/']),
    only('store-knows-no-http', 'store/', ['kernel/', 'domain/', 'store/']),
    only('login-knows-only-the-kernel', 'login/', ['kernel/', 'login/']),
    only('webhooks-are-above-store', 'webhooks/', ['kernel/', 'domain/', 'store/', 'webhooks/']),
    only('platform-is-above-store', 'platform/', ['kernel/', 'domain/', 'store/', 'platform/', 'webhooks/publish']),
    only('operator-is-above-store', 'operator/', ['kernel/', 'domain/', 'store/', 'operator/']),
    only('http-is-above-store', 'http/', ['kernel/', 'domain/', 'store/', 'login/', 'http/']),
    only('listen-is-a-customer', 'listen/', ['domain/', 'listen/']),
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
    tsConfig: { fileName: 'tsconfig.json' },
  },
}
