import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { customerCommand, inSession } from './customer-command.ts'
import { durationMs } from './durations.ts'
import { examples } from './examples.ts'
import { createOutput, UsageError } from './output.ts'
import type { SessionOptions } from './session.ts'
import { styled } from './style.ts'

/** In the published package, and in a checkout. */
const guideFiles = ['../receiving-webhooks.md', '../../../../docs/receiving-webhooks.md'].map(
  (path) => new URL(path, import.meta.url),
)

/** The functions of docs/receiving-webhooks.md, by language. The tests run them. */
function verificationCode(): Map<string, string> {
  const guide = readFileSync(guideFiles.find((file) => existsSync(file))!, 'utf8')
  const blocks = [...guide.matchAll(/^```(\w+) verify\n([\s\S]*?)^```/gm)]
  return new Map(blocks.filter(([, name]) => name !== 'toml').map(([, name, text]) => [name!, text!.trimEnd()]))
}

type RotationOptions = SessionOptions & { overlap?: string; switch?: true }

/** The steps of a rotation; each names the next one. */
export function addWebhookSecretCommands(webhooks: Command): void {
  customerCommand(
    webhooks,
    'rotate-secret <webhook>',
    'Replace the secret of a webhook in three steps; each prints the next one',
    'npx keyhook webhooks rotate-secret wh_…',
    'npx keyhook webhooks rotate-secret wh_… --switch --overlap 2h',
    'npx keyhook webhooks rotate-secret wh_… --overlap 0',
  )
    .option('--switch', 'Sign with the new secret from now on: the last step')
    .option(
      '--overlap <duration>',
      'How long the old secret stays valid, such as 2h: 30 days before the switch and a day after it, unless given; 0 ends it at once',
    )
    .action(
      inSession(async ({ client, output }, options: RotationOptions, id: string) => {
        const overlap = options.overlap === undefined ? {} : { overlap_seconds: overlapSeconds(options.overlap) }
        if (options.switch) {
          const webhook = await client.webhooks.switchSecret(id, overlap)
          const until = webhook.secret_rotation?.ends_at
          const end = until === undefined ? 'The old one has ended.' : `The old one ends at ${until}.`
          return output.result(webhook, `${id} signs with the new secret. ${end} Then remove it from your program.`)
        }
        const rotated = await client.webhooks.rotateSecret(id, overlap)
        const until = rotated.secret_rotation?.ends_at
        output.result(
          rotated,
          until === undefined
            ? `The old secret has ended. The new secret is shown once, so keep it now:\n\n  ${styled('bold', rotated.secret)}`
            : rotationSteps(id, rotated.secret, until),
        )
      }),
    )
  webhooks
    .command('code [language]')
    .description(
      'Print a function that verifies deliveries, to paste into your program; it takes one secret or several',
    )
    .option('--json', 'Print JSON')
    .addHelpText(...examples('npx keyhook webhooks code', 'npx keyhook webhooks code python'))
    .action((language: string | undefined, options: { json?: boolean }) => {
      const code = verificationCode()
      const text = code.get(language ?? 'js')
      if (text === undefined)
        throw new UsageError(
          `There is no code in ${JSON.stringify(language)}. Choose one of: ${[...code.keys()].join(', ')}.`,
        )
      createOutput(options.json ?? false).result({ language: language ?? 'js', code: text }, text)
    })
}

const rotationSteps = (
  id: string,
  secret: string,
  until: string,
): string => `${styled('bold', 'Step 1 of 3')}: the new secret. It is shown once, so keep it now:

  ${styled('bold', secret)}

${styled('bold', 'Step 2 of 3')}: let your program accept both secrets, and deploy it. This prints a function that does:
  npx keyhook webhooks code js   (or ${[...verificationCode().keys()].slice(1).join(', ')})
Then try it with a test event, which is signed with the new secret alone:
  npx keyhook webhooks test ${id} --wait

${styled('bold', 'Step 3 of 3')}: when the test event is accepted, switch. The old secret ends a day later, or after --overlap:
  npx keyhook webhooks rotate-secret ${id} --switch

Deliveries are signed with the old secret until you switch, or until ${until}.`

function overlapSeconds(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : durationMs('--overlap', text) / 1_000
}
