import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { S3Options } from '../../src/archives/s3-transfer.ts'
import { until } from './until.ts'

/**
 * A real S3 server (versitygw, on a directory), if its program is here: KEYHOOK_TEST_S3_SERVER names it, and
 * `packages/server/test/kit/build-s3-server` builds it with Go.
 */
export const s3Program = process.env.KEYHOOK_TEST_S3_SERVER || null
export const s3Missing = 'no S3 server: run packages/server/test/kit/build-s3-server and set KEYHOOK_TEST_S3_SERVER'

export type S3Server = {
  options: S3Options
  /** The directory of the bucket. */
  bucketPath: string
  /** SIGKILL, then the same server again. */
  stop(): Promise<void>
  close(): Promise<void>
}

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })

const s3Credentials = { accessKeyId: 'keyhook-test', secretAccessKey: 'not-a-secret-0123456789' }

export async function startS3Server(
  more: { certificate?: { cert: string; key: string }; virtualDomain?: string } = {},
): Promise<S3Server> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-s3-'))
  const bucketPath = join(folder, 'data', 'backups-bucket')
  await mkdir(bucketPath, { recursive: true })
  await mkdir(join(folder, 'meta'))
  const port = await freePort()
  const options = ['--port', `127.0.0.1:${port}`, '--quiet']
  if (more.virtualDomain !== undefined) options.push('--virtual-domain', more.virtualDomain)
  if (more.certificate !== undefined) {
    for (const name of ['cert', 'key'] as const) {
      const path = join(folder, `${name}.pem`)
      await writeFile(path, more.certificate[name], { mode: 0o600 })
      options.push(`--${name}`, path)
    }
  }
  const child: ChildProcess = spawn(
    s3Program!,
    // Metadata beside the data: not every file system of a test machine has extended attributes.
    [...options, 'posix', '--sidecar', join(folder, 'meta'), join(folder, 'data')],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        PATH: process.env.PATH,
        ROOT_ACCESS_KEY_ID: s3Credentials.accessKeyId,
        ROOT_SECRET_ACCESS_KEY: s3Credentials.secretAccessKey,
      },
    },
  )
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const scheme = more.certificate === undefined ? 'http' : 'https'
  await untilListening(port, child)
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
  }
  return {
    bucketPath,
    options: {
      bucket: 'backups-bucket',
      prefix: null,
      endpoint: `${scheme}://127.0.0.1:${port}`,
      region: 'us-east-1',
      addressing: 'path',
      ca: null,
      credentials: s3Credentials,
      partBytes: 5 * 1024 * 1024,
      timeoutMs: 20_000,
    },
    stop,
    async close() {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const untilListening = (port: number, child: ChildProcess) =>
  until(() => {
    if (child.exitCode !== null) throw new Error(`the S3 server ended with ${child.exitCode}`)
    return fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      // A TLS server answers a plain request with an error that is not ECONNREFUSED.
      (error: { cause?: { code?: string } }) => error.cause?.code !== 'ECONNREFUSED',
    )
  })
