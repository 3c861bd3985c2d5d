import type { BackupScheduleInForce } from '@keyhook/client'
import { countText } from '../../words/numbers.ts'

/** How often, in the order of the form. */
export const intervals: Record<string, string> = {
  default: 'As the operator has set it',
  1: 'Every hour',
  6: 'Every 6 hours',
  12: 'Every 12 hours',
  24: 'Every day',
  168: 'Every week',
}

export const intervalText = (hours: number): string => intervals[hours] ?? `Every ${countText(hours)} hours`

const weekday = new Intl.DateTimeFormat('en', { weekday: 'long', timeZone: 'UTC' })
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone: 'UTC' })

/** A schedule of whole days keeps its time of day: it counts from the backup before. */
function timeText(hours: number, next: string): string {
  const at = new Date(next)
  if (hours === 168) return ` on ${weekday.format(at)} at about ${clock.format(at)} UTC`
  return hours % 24 === 0 ? ` at about ${clock.format(at)} UTC` : ''
}

const keptFor = (hours: number): string =>
  hours < 48 ? `${countText(hours)} hours` : `${countText(Math.round(hours / 24))} days`

/** "Every day at about 02:10 UTC. The newest 7 are kept, which is about 7 days." */
export function scheduleText({ in_force: { every_hours: hours, keep, next_at: next } }: BackupScheduleInForce): string {
  if (hours === null) return 'No backups are made without being asked for.'
  const often = `${intervalText(hours)}${next === null ? '' : timeText(hours, next)}.`
  if (keep === 1) return `${often} The newest one is kept.`
  return `${often} The newest ${countText(keep)} are kept, which is about ${keptFor(hours * keep)}.`
}

/** Whose setting it is. */
export const isOfOperator = ({ every_hours, keep }: BackupScheduleInForce): boolean =>
  every_hours === null && keep === null
