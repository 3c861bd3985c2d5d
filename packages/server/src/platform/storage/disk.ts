import { statfsSync } from 'node:fs'
import { type DiskLevel, diskLevel, diskLevels } from '../../domain/storage.ts'

/** What is free for ordinary users: blocks that are reserved for root do not count. */
export type DiskSpace = { freeBytes: number; sizeBytes: number; freeFiles: number; files: number }

/**
 * Synchronous: it takes microseconds on a local disk, and in the thread pool it would wait behind the reads of backups just when the disk
 * is busiest.
 */
export function readDisk(path: string): DiskSpace {
  const { bavail, blocks, bsize, ffree, files } = statfsSync(path)
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize, freeFiles: ffree, files }
}

/** Shares of a small disk, so that a demonstration runs on one too. */
const floorShareMax = 0.25
const reserveShareMax = 0.05
/** Every table is at least one file. File systems that create inodes as needed report 0 of them. */
const freeFilesMin = 20_000
const freeFilesShare = 0.05

export const floorOf = ({ sizeBytes }: DiskSpace, wantedBytes: number): number =>
  Math.min(wantedBytes, Math.floor(sizeBytes * floorShareMax))

export const reserveOf = ({ sizeBytes }: DiskSpace, wantedBytes: number): number =>
  Math.min(wantedBytes, Math.floor(sizeBytes * reserveShareMax))

/** The stricter of free bytes and free inodes. */
export function levelOf(before: DiskLevel, space: DiskSpace, floorBytes: number): DiskLevel {
  const byBytes = diskLevel(before, space.freeBytes, floorBytes)
  const byFiles = diskLevel(before, space.freeFiles, Math.min(freeFilesMin, space.files * freeFilesShare))
  return diskLevels[Math.max(diskLevels.indexOf(byBytes), diskLevels.indexOf(byFiles))]!
}
