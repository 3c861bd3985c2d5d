/** For a statement that has one row, or none. */
export const firstRow = async <T>(rows: PromiseLike<readonly T[]>): Promise<T | null> => (await rows)[0] ?? null

export const hasRows = async (rows: PromiseLike<readonly unknown[]>): Promise<boolean> => (await rows).length > 0
