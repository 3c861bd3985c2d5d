import { nameOf, useMembers } from '../../components/person.tsx'
import { Select } from '../../components/select.tsx'
import type { AuditSearch, Range } from '../../search.ts'
import { rangeTexts } from '../../words/ranges.ts'
import { actionTexts } from './audit-words.ts'

type Props = { search: AuditSearch; onChange: (changes: AuditSearch) => void }

const given = <T extends string>(value: T | 'any'): T | undefined => (value === 'any' ? undefined : (value as T))

/** What, who and when. */
export function AuditFilters({ search, onChange }: Props) {
  const members = useMembers()?.map((member) => [member.user_id, nameOf(member)]) ?? []
  const people = { any: 'Anyone', ...Object.fromEntries(members), operator: 'The operator' }
  return (
    <>
      <Select<string>
        small
        label="Action"
        options={{ any: 'Any action', ...actionTexts }}
        value={search.action ?? 'any'}
        onChange={(action) => onChange({ action: given(action) })}
      />
      <Select<string>
        small
        label="Made by"
        options={people}
        value={search.actor ?? 'any'}
        onChange={(actor) => onChange({ actor: given(actor) })}
      />
      <Select<Range | 'any'>
        small
        label="Time"
        options={rangeTexts}
        value={search.range ?? 'any'}
        onChange={(range) => onChange({ range: given<Range>(range) })}
      />
    </>
  )
}
