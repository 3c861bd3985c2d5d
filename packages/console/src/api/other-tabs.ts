import { basePath } from '../address.ts'

/** Joins the tabs of this browser, so that each knows when another one signs in or out. */
const channel = new BroadcastChannel(`session ${basePath}`)

export const tellOtherTabs = (): void => channel.postMessage(null)

/** Calls when another tab tells, and when the browser shows a page again that it kept whole, after "back". */
export function onSessionChange(check: () => void): void {
  channel.onmessage = check
  addEventListener('pageshow', (event) => {
    if (event.persisted) check()
  })
}
