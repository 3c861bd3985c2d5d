import { type ReactNode, useEffect } from 'react'

/** The heading of a page, and its title in the browser. */
export function PageHeader({
  title,
  heading = title,
  description,
  actions,
  crumbs,
}: {
  title: string
  heading?: ReactNode
  description?: ReactNode
  actions?: ReactNode
  crumbs?: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Keyhook`
  }, [title])
  return (
    <header className="page-header">
      <div>
        {crumbs && (
          <nav className="crumbs" aria-label="Breadcrumb">
            {crumbs}
          </nav>
        )}
        <h1 className="break">{heading}</h1>
        {description && <p>{description}</p>}
      </div>
      {actions && <div className="page-actions">{actions}</div>}
    </header>
  )
}
