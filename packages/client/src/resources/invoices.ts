import type { Api, ListOptions, OrganizationOptions } from '../api.ts'
import type { List } from '../list.ts'

export type InvoiceSummary = {
  id: string
  month: string
  status: 'issued' | 'paid'
  currency: string
  total_minor: number
  issued_at: string
  paid_at: string | null
}

export type InvoiceLine = {
  database_id: string
  name: string
  seconds: number
  hour_price_minor: number
  amount_minor: number
}

export type Invoice = InvoiceSummary & { lines: InvoiceLine[] }

export const invoices = (api: Api) => ({
  list: (options: ListOptions = {}): List<InvoiceSummary> => api.list(api.platform(options, 'invoices'), options),

  get: async (id: string, options: OrganizationOptions = {}): Promise<Invoice> =>
    api.get(api.platform(options, 'invoices', id), options),
})
