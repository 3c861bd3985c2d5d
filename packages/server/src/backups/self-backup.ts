import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, open, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { readArchive, writeArchive } from '../archives/archive.ts'
import { type Encryption, readLabel } from '../archives/encryption.ts'
import { baseBackup, unpack } from '../databases/drivers/local/base-backup.ts'
import { type ConnectionTarget, connect } from '../db/database.ts'
import { restoreCluster } from '../postgres/cluster.ts'
import { syncDirectory } from '../postgres/data-directory.ts'
import { socketName } from '../postgres/lock-file.ts'
import { untrustedTree } from '../postgres/untrusted-files.ts'

/** In the place of a database's id: tells our own backup from a customer's. */
export const ourOwn = 'keyhook'
/** What the file is encrypted as. Customers' archives have other names, and each database has other keys. */
const objectName = `self/${ourOwn}`
const minutes = 60_000
/** Our own database has no storage limit. */
const bytesMax = Number.POSITIVE_INFINITY

export type SelfBackup = { file: string; bytes: number; files: number }

/** A problem with the file or the data directory. The message says what to do. */
export class SelfBackupProblem extends Error {
  override readonly name = 'SelfBackupProblem'
}

/** Writes a new file while everything goes on, and reads it back. The master key that encrypts it is not in the cluster, and so not in the file. */
export async function backUpSelf(
  { dataDir, target, encryption }: { dataDir: string; target: ConnectionTarget; encryption: Encryption },
  to: string,
): Promise<SelfBackup> {
  const file = resolve(to)
  const cluster = untrustedTree(join(dataDir, 'postgres'))
  const sql = connect(target, { name: 'keyhook backup', connectionsMax: 1, statementMsMax: 5 * minutes })
  const { signal } = new AbortController()
  try {
    const content = writeArchive((archive) =>
      baseBackup(archive, { id: ourOwn, cluster, socket: socketName, sql, bytesMax, onProgress() {}, signal }),
    )
    return await writeOnce(file, encryption.encrypt(objectName, content), encryption)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** The file appears complete and verified, or not at all, and never replaces another one. */
async function writeOnce(
  file: string,
  content: AsyncIterable<Uint8Array>,
  encryption: Encryption,
): Promise<SelfBackup> {
  const draft = `${file}.writing-${randomBytes(6).toString('hex')}`
  const opened = await open(draft, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    throw new SelfBackupProblem(`${file} cannot be written (${error.code}).`, { cause: error })
  })
  try {
    let bytes = 0
    try {
      for await (const part of content) {
        await opened.writeFile(part)
        bytes += part.length
      }
      await opened.sync()
    } finally {
      await opened.close()
    }
    const stored = encryption.decrypt(objectName, createReadStream(draft))
    const manifest = await readArchive(stored, discard, { bytesMax })
    // A hard link, unlike a rename, does not replace a file.
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      throw new SelfBackupProblem(`${file} exists already: choose another name.`, { cause: error })
    })
    await syncDirectory(dirname(file))
    return { file, bytes, files: manifest.files.length }
  } finally {
    await rm(draft, { force: true })
  }
}

const discard = {
  async directory() {},
  async file(_path: string, body: AsyncIterable<Buffer>) {
    for await (const _part of body);
  },
}

type Place = { dataDir: string; postgresBin: string | null; encryption: Encryption }

/** Restores such a file into a data directory without a database. Returns the data directory. */
export async function restoreSelf(place: Place, from: string, note: (text: string) => void): Promise<string> {
  const file = resolve(from)
  await checkOurOwn(file)
  const options = { bytesMax, onProgress() {}, signal: new AbortController().signal }
  return restoreCluster({
    dataDir: place.dataDir,
    postgresBin: place.postgresBin,
    note,
    async fill(cluster, { binaries, account }) {
      const content = place.encryption.decrypt(objectName, createReadStream(file))
      await unpack({ binaries }, { account }, content, cluster, options)
    },
  })
}

async function checkOurOwn(file: string): Promise<void> {
  const opened = await open(file, 'r').catch((error: NodeJS.ErrnoException) => {
    throw new SelfBackupProblem(`${file} cannot be read (${error.code}).`, { cause: error })
  })
  await opened.close()
  const label = await readLabel(createReadStream(file))
  if (label === null) throw new SelfBackupProblem(`${file} is not an archive that Keyhook has encrypted.`)
  if (label.name !== objectName)
    throw new SelfBackupProblem(`${file} is ${label.name}, and not a backup of Keyhook itself.`)
}
