import { readFileSync } from 'node:fs'
import { isFromKeyhook } from './verify.mjs'

for (const line of readFileSync(process.argv[2], 'utf8').trimEnd().split('\n')) {
  const [file, header, ...secrets] = line.split('\t')
  console.log(isFromKeyhook(readFileSync(file), header, ...secrets))
}
