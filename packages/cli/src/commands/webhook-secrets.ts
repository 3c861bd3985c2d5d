import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { durationMs } from '../arguments.ts'
import { createOutput, examples, UsageError } from '../output.ts'
import { customerCommand, inSession, type SessionOptions } from '../session.ts'
import { styled } from '../style.ts'

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
    'Replace the secret of a webhook in three steps; each step prints the next',
    'npx keyhook webhooks rotate-secret wh_…',
    'npx keyhook webhooks rotate-secret wh_… --switch --overlap 2h',
    'npx keyhook webhooks rotate-secret wh_… --overlap 0',
  )
    .option('--switch', 'Sign with the new secret from now on; this is the last step')
    .option(
      '--overlap <duration>',
      'Keep the old secret valid this long, such as 2h; 0 ends it at once (default: 30 days before the switch, 1 day after the switch)',
    )
    .action(
      inSession(async ({ client, output }, options: RotationOptions, id: string) => {
        const overlap = options.overlap === undefined ? {} : { overlap_seconds: overlapSeconds(options.overlap) }
        if (options.switch) {
          const webhook = await client.webhooks.switchSecret(id, overlap)
          const until = webhook.secret_rotation?.ends_at
          const end = until === undefined ? 'The old secret has ended.' : `The old secret ends at ${until}.`
          return output.result(
            webhook,
            `The webhook ${id} signs with the new secret. ${end} Then remove the old secret from your program.`,
          )
        }
        const rotated = await client.webhooks.rotateSecret(id, overlap)
        const until = rotated.secret_rotation?.ends_at
        output.result(
          rotated,
          until === undefined
            ? `The old secret has ended. The new secret is shown once, so store it now:\n\n  ${styled('bold', rotated.secret)}`
            : rotationSteps(id, rotated.secret, until),
        )
      }),
    )
  webhooks
    .command('code [language]')
    .description('Print a function that verifies deliveries with one secret or several')
    .option('--json', 'Print the function as one line of JSON')
    .addHelpText(...examples('npx keyhook webhooks code', 'npx keyhook webhooks code python'))
    .action((language: string | undefined, options: { json?: boolean }) => {
      const code = verificationCode()
      const text = code.get(language ?? 'js')
      if (text === undefined)
        throw new UsageError(
          `There is no code in the language ${JSON.stringify(language)}. Choose one of: ${[...code.keys()].join(', ')}.`,
        )
      createOutput(options.json ?? false).result({ language: language ?? 'js', code: text }, text)
    })
}

const rotationSteps = (
  id: string,
  secret: string,
  until: string,
): string => `${styled('bold', 'Step 1 of 3')}: store the new secret now, because it is shown once:

  ${styled('bold', secret)}

${styled('bold', 'Step 2 of 3')}: let your program accept both secrets, and deploy it. This command prints a function that
accepts both:
  npx keyhook webhooks code js   (or ${[...verificationCode().keys()].slice(1).join(', ')})
Then send a test event, which is signed with the new secret alone:
  npx keyhook webhooks test ${id} --wait

${styled('bold', 'Step 3 of 3')}: when your program accepts the test event, switch to the new secret. The old secret ends a day
later, or after --overlap:
  npx keyhook webhooks rotate-secret ${id} --switch

Deliveries are signed with the old secret until you switch, at the latest until ${until}.`

function overlapSeconds(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : durationMs('--overlap', text) / 1_000
}
