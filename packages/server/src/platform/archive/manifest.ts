/** The last entry of an archive: where it comes from, and the SHA-256 of each file. */
export const manifestPath = 'keyhook-manifest.json'

export type Manifest = {
  format: 1
  database_id: string
  postgres_version: string
  /** The archive contains the WAL between the two positions. Replaying it makes the files consistent. */
  start_lsn: string
  stop_lsn: string
  /** When it ended, by the clock of the database. */
  stopped_at?: string
  files: { path: string; bytes: number; sha256: string }[]
}

export const encodeManifest = (manifest: Manifest): Buffer => Buffer.from(`${JSON.stringify(manifest)}\n`)

export function decodeManifest(text: string): Manifest | null {
  try {
    const manifest = JSON.parse(text) as Manifest
    return manifest.format === 1 && Array.isArray(manifest.files) ? manifest : null
  } catch {
    return null
  }
}
