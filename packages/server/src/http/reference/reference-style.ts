/** Plain, printable, light and dark, wide and narrow. */
export const style = `
:root { color-scheme: light dark; --ink: light-dark(#1f2328, #e6e8eb); --quiet: light-dark(#59636e, #9aa4af); --line: light-dark(#d8dee4, #3a414a); --soft: light-dark(#f4f6f8, #20262d); --page: light-dark(#fff, #14181d); --accent: light-dark(#0b57d0, #8ab4f8); --green: light-dark(#1a7f37, #7ee2a8); --red: light-dark(#b3261e, #f2a9a4); scroll-padding-top: 1rem }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--page); display: grid; grid-template-columns: 17.5rem minmax(0, 1fr) }
a { color: var(--accent); text-decoration: none } a:hover { text-decoration: underline }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem 1.25rem; border-right: 1px solid var(--line); font-size: .875rem }
nav ul { list-style: none; padding: 0; margin: 0 } nav li a { display: block; padding: .15rem 0; color: inherit }
nav h2 { font-size: .75rem; margin: 1.25rem 0 .35rem; text-transform: uppercase; letter-spacing: .06em } nav h2 a { color: var(--quiet) }
.brand { font-size: 1.15rem; font-weight: 700; margin: 0 } .brand a { color: inherit }
main { padding: 2.5rem 3rem 30vh; max-width: 60rem } h1 { margin: 0 0 1rem; font-size: 2rem }
main > h2 { margin: 4rem 0 1rem; font-size: 1.5rem; padding-bottom: .4rem; border-bottom: 2px solid var(--line) }
h3 { margin: 0; font-size: 1.15rem } h4 { margin: 1.5rem 0 .35rem; font-size: .9rem } p { margin: .6rem 0 }
section { margin: 2.75rem 0; } section + section { border-top: 1px solid var(--line); padding-top: 2rem }
.anchor { visibility: hidden; font-weight: 400; color: var(--quiet) } :is(h2, h3):hover .anchor, .anchor:focus { visibility: visible } :target { color: var(--accent) }
code { font: .86em/1.5 ui-monospace, monospace; background: var(--soft); padding: .12em .35em; border-radius: 4px; overflow-wrap: anywhere }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; margin: 1rem 0 } pre code { background: none; padding: 0; overflow-wrap: normal }
.call { margin: .35rem 0 .8rem } .verb { font: 600 .72rem ui-monospace, monospace; color: var(--green) } .verb.POST { color: var(--accent) } .verb.DELETE { color: var(--red) }
.type, i { color: var(--quiet); font-size: .85rem; font-weight: 400 }
table { border-collapse: collapse; width: 100%; font-size: .92rem } tr { border-top: 1px solid var(--line) }
th, td { text-align: left; vertical-align: top; padding: .5rem 1rem .5rem 0; font-weight: 400 } th { width: 13rem } .answers th { width: 4.5rem } td.type { width: 9rem }
td:last-child { padding-right: 0 }
.choices, .headers { margin: .35rem 0; padding-left: 1.1rem; font-size: .9rem } .choices { color: var(--quiet); list-style: circle }
.tag { font: 500 .72rem/1.4 system-ui, sans-serif; border: 1px solid var(--line); border-radius: 99px; padding: 0 .55em; white-space: nowrap; color: var(--quiet); display: inline-block; vertical-align: .1em } .tag.specified { border-color: var(--green); color: var(--green) }
details { margin-top: 1.25rem } summary { cursor: pointer; font-size: .9rem; color: var(--quiet); margin-bottom: .35rem }
dl { display: grid; grid-template-columns: 6rem minmax(0, 1fr); gap: .3rem 1rem; margin: .6rem 0; font-size: .95rem } dt { color: var(--quiet) } dd { margin: 0 }
@media (max-width: 56rem) { body { display: block } nav { position: static; height: auto; max-height: 45vh; border: 0; border-bottom: 1px solid var(--line) } main { padding: 1.25rem } :is(th, td):not(:last-child) { padding-bottom: 0 } tr, th, td, td.type { display: block; width: auto } th { padding-top: .6rem } td { padding-top: .15rem } dl { display: block } dd { margin-bottom: .5rem } }
@media print { nav { display: none } body { display: block } }
`
