import type { ComponentProps, ReactNode } from 'react'

type Look = 'plain' | 'primary' | 'danger' | 'ghost'

type ButtonProps = ComponentProps<'button'> & {
  look?: Look
  small?: boolean
  /** The action is running: the button cannot be pressed again, and says so. */
  busy?: boolean
}

const buttonClass = (look: Look = 'plain', small = false): string =>
  ['button', look !== 'plain' && `button-${look}`, small && 'button-small'].filter(Boolean).join(' ')

export function Button({ look, small, busy = false, children, disabled, className = '', ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`${buttonClass(look, small)} ${className}`}
      disabled={disabled || busy}
      aria-busy={busy}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {children}
    </button>
  )
}

/** A button whose icon is its whole content, so it needs a label. */
export function IconButton({
  label,
  children,
  ...rest
}: Omit<ButtonProps, 'look'> & { label: string; children: ReactNode }) {
  return (
    <Button {...rest} look="ghost" className="button-icon" aria-label={label} title={label}>
      {children}
    </Button>
  )
}
