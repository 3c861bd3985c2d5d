/** A page by keyset: everything older than `before`, newest first. No offset: page 1,000 costs what page 1 costs. */
export type PageRequest = { before: string | null; limit: number }
