/** Plain, printable, light and dark. */
export const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --ink: light-dark(#1a1a1a, #e8e8e8); --accent: light-dark(#0b57d0, #8ab4f8) }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); display: grid; grid-template-columns: 17rem minmax(0, 1fr) }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem; border-right: 1px solid var(--line); font-size: .875rem }
main > h1 { margin: 3rem 0 -1rem; font-size: 1.5rem } .call { margin: -.25rem 0 .75rem } nav h1 { margin: 0 0 1rem; font-size: 1.25rem } nav ul { list-style: none; padding: 0; margin: 0 } nav li { padding: .2rem 0 }
main { padding: 2rem 3rem 6rem; max-width: 62rem }
a { color: var(--accent); text-decoration: none } a:hover { text-decoration: underline }
section { border-top: 1px solid var(--line); padding-top: 1rem; margin-top: 2.5rem }
h2 { font-size: 1.1rem; overflow-wrap: anywhere } h3 { font-size: .8rem; text-transform: uppercase; letter-spacing: .06em; opacity: .7; margin: 1.25rem 0 .25rem }
code { font: .875em ui-monospace, monospace; background: var(--soft); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-size: .9rem } th, td { text-align: left; vertical-align: top; padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--line); font-weight: normal }
th { white-space: nowrap } td table { margin-top: .5rem }
.verb { font: 600 .75rem ui-monospace, monospace; color: light-dark(#136c2e, #81c995) } .verb.POST { color: light-dark(#0b57d0, #8ab4f8) } .verb.DELETE { color: light-dark(#b3261e, #f2b8b5) }
.basis { font-size: .7rem; border: 1px solid var(--line); border-radius: 99px; padding: 0 .5em; white-space: nowrap; opacity: .8 } .basis.specified { border-color: currentColor; opacity: 1 }
@media (max-width: 48rem) { body { display: block } nav { position: static; height: auto; border: 0 } main { padding: 1rem } th { white-space: normal } }
`
