import { createConfig, lintFromString } from '@redocly/openapi-core'
import { type RulesetDefinition, Spectral } from '@stoplight/spectral-core'
import { oas } from '@stoplight/spectral-rulesets'
import { expect, test } from 'vitest'
import { readDocumented } from '../kit/documented.ts'
import { startApiForTest } from '../kit/installation.ts'

const readDocument = async () => (await readDocumented((await startApiForTest()).url)).document

test('the document passes `redocly lint` without a finding', async () => {
  const document = await readDocument()
  const config = await createConfig({ extends: ['recommended'] })
  const findings = await lintFromString({ source: JSON.stringify(document), absoluteRef: '/openapi.json', config })
  expect(findings.map(({ ruleId, message, location }) => ({ ruleId, message, at: location[0]?.pointer }))).toEqual([])
})

test('the document passes `spectral lint` without a finding', async () => {
  const document = await readDocument()
  const spectral = new Spectral()
  spectral.setRuleset({ extends: [[oas as RulesetDefinition, 'recommended']] })
  const findings = await spectral.run(JSON.stringify(document))
  expect(findings.map(({ code, message, path }) => ({ code, message, at: path.join('/') }))).toEqual([])
})
