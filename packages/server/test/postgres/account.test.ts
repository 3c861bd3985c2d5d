import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import type { Account } from '../../src/postgres/account.ts'
import { program } from '../kit/processes.ts'
import { asRoot } from './support/scratch.ts'
import '../kit/server-limits.ts'

/*
 * The account that root makes at the first start, in a mount namespace with its own copy of /etc: the account of this machine may be in use.
 */

const run = promisify(execFile)
const script = new URL('support/make-accounts.ts', import.meta.url).pathname

/** Runs a shell script where the user keyhook does not exist. `$0` is a folder, `$1` has the test's own programs. */
async function withoutAccount(commands: string, programs: Record<string, string> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-etc-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await mkdir(join(folder, 'bin'))
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(folder, 'bin', name), text, { mode: 0o755 })
  }
  const inside = `
    set -e
    cp -a /etc "$0/etc"
    mount --bind "$0/etc" /etc
    sed -i '/^keyhook:/d' /etc/passwd /etc/shadow /etc/group /etc/gshadow
    ${commands}`
  const args = ['--mount', 'sh', '-c', inside, folder, join(folder, 'bin'), process.execPath, script, program]
  return (await run('unshare', args)).stdout
}

const canMount = asRoot && (await run('unshare', ['--mount', 'true']).then(Boolean, () => false))
const accountsIn = (stdout: string): Account[] => stdout.split('\n').flatMap((line) => (line ? JSON.parse(line) : []))

/** As the real one: looks for the name first, and later writes its entry over another. Who looks first writes last. */
const slowUseradd = `#!/bin/sh
grep -q ^keyhook: /etc/passwd && exit 9
uid=997
mkdir /etc/first 2> /dev/null && sleep 1 && uid=998
sed -i /^keyhook:/d /etc/passwd
echo "keyhook:x:$uid:$uid::/:/usr/sbin/nologin" >> /etc/passwd
`

test.skipIf(!canMount)(
  'two parts of a first start get the same account, also if the first of them is slow',
  async () => {
    const stdout = await withoutAccount('PATH="$1:$PATH" "$2" "$3"', { useradd: slowUseradd })
    const [one, other] = accountsIn(stdout)
    expect(one).toEqual({ uid: 998, gid: 998 })
    expect(other).toEqual(one)
  },
)

test.skipIf(!canMount)('processes that start at the same time make one account', async () => {
  const stdout = await withoutAccount(
    'for n in 1 2 3; do "$2" "$3" > "$0/$n" & done; wait; for n in 1 2 3; do cat "$0/$n"; echo; done',
  )
  const accounts = accountsIn(stdout)
  expect(accounts).toHaveLength(6)
  for (const account of accounts) expect(account).toEqual(accounts[0])
})

/** The command with its data in the folder of the test, which ends with what it wrote to standard error. */
const migrate = 'chmod 755 "$0"; KEYHOOK_DATA_DIR="$0/data" "$2" "$4" migrate 2>&1 || echo "code $?"'

test.skipIf(!canMount)('without useradd one sentence says what to do', async () => {
  const stdout = await withoutAccount(`mount -t tmpfs none /usr/sbin; PATH=/usr/bin; ${migrate}`)
  expect(stdout).toMatch(
    /^PostgreSQL refuses to run as root, [^\n]+useradd: not found[^\n]+DATABASE_URL[^\n]+\ncode 2\n$/,
  )
})

test.skipIf(!canMount)('root that may not become another user, as in a user namespace, gets one sentence', async () => {
  const account = 'echo keyhook:x:998:998::/:/usr/sbin/nologin >> /etc/passwd'
  const inNamespace = `unshare --user --map-root-user sh -c '${migrate}' "$@"`
  const stdout = await withoutAccount(`${account}; chmod 755 "$0"; set -- "$0" "$@"; ${inNamespace}`)
  expect(stdout).toMatch(
    /^Preparing [^\n]+\nPostgreSQL refuses to run as root, [^\n]+chown[^\n]+DATABASE_URL[^\n]+\ncode 2\n$/,
  )
})
