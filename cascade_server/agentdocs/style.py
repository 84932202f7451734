"""The reference page's style sheet."""

CSS = """\
:root {
  color-scheme: light dark;
  --bg: #ffffff; --soft: #f5f6f8; --line: #dfe2e7; --text: #1c2128; --dim: #5b6472; --link: #1a56c4;
  --get: #1a7f4b; --post: #9a5b00; --put: #7a3db8; --err: #b3261e; --code: #eef0f4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #14171c; --soft: #1b1f26; --line: #2f3540; --text: #e4e7ec; --dim: #9aa4b2; --link: #84b2ff;
    --get: #5fd39a; --post: #f0b35a; --put: #c9a1f5; --err: #ff8f85; --code: #242a33;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--bg); color: var(--text);
  font: 15px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.88em; }
code { background: var(--code); border-radius: 4px; padding: 0.1em 0.3em; overflow-wrap: anywhere; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: 0.7rem 0.9rem;
  overflow-x: auto; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
nav { position: fixed; inset: 0 auto 0 0; width: 19rem; overflow-y: auto; padding: 1.2rem 1rem 2rem 1.3rem;
  background: var(--soft); border-right: 1px solid var(--line); font-size: 12.5px; }
nav h1 { font-size: 17px; margin: 0; }
nav .version { color: var(--dim); margin: 0 0 1rem; }
nav h2 { font-size: 11px; letter-spacing: 0.06em; text-transform: uppercase; color: var(--dim);
  margin: 1.2rem 0 0.3rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: flex; gap: 0.5rem; align-items: baseline; padding: 0.13rem 0; color: var(--text); }
nav li a span { overflow-wrap: anywhere; }
nav .method { flex: none; width: 2.3rem; font-size: 10px; }
main { margin-left: 19rem; padding: 1.8rem 2.6rem 6rem; max-width: 66rem; }
main > h1 { font-size: 28px; line-height: 1.2; margin: 0 0 0.8rem; }
h2 { font-size: 21px; margin: 3rem 0 0.3rem; padding-bottom: 0.3rem; border-bottom: 1px solid var(--line); }
h2 + p { color: var(--dim); margin-top: 0.3rem; }
article { padding: 1.1rem 0 1.2rem; border-bottom: 1px solid var(--line); }
article:last-of-type { border-bottom: 0; }
h3 { font-size: 16px; margin: 0 0 0.35rem; font-weight: 600; }
h3 code { font-size: 15px; background: none; padding: 0; }
h3 .method { font-size: 12px; margin-right: 0.45rem; }
h4 { font-size: 12px; letter-spacing: 0.05em; text-transform: uppercase; color: var(--dim); margin: 1rem 0 0.3rem; }
p { margin: 0.35rem 0; }
.method { font-weight: 700; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); } .error { color: var(--err); }
.note { color: var(--dim); }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 0.32rem 0.9rem 0.32rem 0;
  border-bottom: 1px solid var(--line); }
tr:last-child td, tr:last-child th { border-bottom: 0; }
thead th { font-size: 12px; color: var(--dim); font-weight: 600; }
.scroll { overflow-x: auto; }
.fields td:first-child { width: 13rem; } .fields td:nth-child(2) { width: 16rem; }
.answers td:first-child { width: 3.5rem; font-variant-numeric: tabular-nums; font-weight: 600; }
.tag { font-size: 11px; color: var(--dim); border: 1px solid var(--line); border-radius: 9px; padding: 0 0.5em;
  margin-left: 0.4em;
  font-weight: 400; white-space: nowrap; }
@media (max-width: 60rem) {
  nav { position: static; width: auto; border-right: 0; border-bottom: 1px solid var(--line); max-height: 30vh; }
  main { margin-left: 0; padding: 1.2rem 1.1rem 4rem; }
}
@media print { nav { display: none; } main { margin: 0; max-width: none; } }
"""
