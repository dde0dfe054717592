"""Style sheet of the page: light, dark, phone, print."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--page:#ffffff;--card:#f6f8fa;--text:#1b2129;--muted:#566070;
--line:#d8dee6;--a:#84aee6;--b:#1d4f9c;--s:#3f9d87;--w:#965800;--e:#b3261e;--rail:#e6eaf0;
--link:#1d4f9c;--good:#1f6f43}
@media (prefers-color-scheme:dark){:root{--page:#11151a;--card:#1a2027;--text:#e6eaf0;
--muted:#a5afbc;--line:#333c47;--a:#3f6ca6;--b:#9cc4ff;--s:#4fb79f;--w:#eba43a;--e:#ff8b80;
--rail:#2a323c;--link:#9cc4ff;--good:#7fd1a0}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
header,main,footer,nav{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.25rem}
h1{font-size:1.75rem;line-height:1.2;margin:0;overflow-wrap:anywhere}
h2{font-size:1.25rem;line-height:1.3;margin:0 0 .35rem}
p{margin:.35rem 0}
a{color:var(--link)}
.sub,.note,caption,.axis,figcaption,.tile span,.tile small,footer{color:var(--muted)}
.sub{overflow-wrap:anywhere}
.note,footer{font-size:.875rem}
nav{margin-top:1.25rem}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;list-style:none;margin:0;padding:.6rem 0;
border-top:1px solid var(--line);border-bottom:1px solid var(--line);font-size:.9rem}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:.75rem;
margin:1.25rem 0 0;padding:0;list-style:none}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.65rem .6rem}
.tile span,.tile small{display:block;font-size:.8125rem}
.tile b{display:block;font-size:1.1rem;line-height:1.5;white-space:nowrap;
letter-spacing:-.01em;font-weight:650;
font-variant-numeric:tabular-nums}
.tile.warning b{color:var(--w)}.tile.error b{color:var(--e)}
section{margin:2.5rem 0 0;padding-top:1.25rem;border-top:1px solid var(--line)}
main>section:first-child{margin-top:.75rem;border-top:0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));
gap:.5rem 2rem}
figure{margin:1.1rem 0 0;min-width:0}
figcaption{font-size:.9rem;display:flex;flex-wrap:wrap;gap:.1rem 1rem;align-items:baseline}
figcaption b{color:var(--text)}
.key i{display:inline-block;width:.7em;height:.7em;border-radius:2px;margin-right:.4em}
i.a{background:var(--a)}i.b{background:var(--b)}i.s{background:var(--s)}i.w{background:var(--w)}
i.e{background:var(--e)}
rect.a{fill:var(--a)}rect.b{fill:var(--b)}rect.s{fill:var(--s)}rect.w{fill:var(--w)}
rect.e{fill:var(--e)}rect.rail{fill:var(--rail)}
.plot{position:relative;margin-top:.4rem;padding-top:1.15rem;border-bottom:1px solid var(--muted)}
.plot svg{display:block;width:100%;height:9rem}
.plot .top{position:absolute;top:0;left:0;right:0;font-size:.8125rem;line-height:1.1rem;
color:var(--muted);border-bottom:1px dashed var(--line)}
.axis{display:flex;justify-content:space-between;gap:1rem;font-size:.8125rem;margin-top:.2rem}
.axis span:last-child{text-align:right}
.lanes{margin-top:.5rem;border-bottom:1px solid var(--muted)}
.lane{display:grid;grid-template-columns:10rem 1fr;align-items:center;gap:.75rem;
border-top:1px solid var(--line);padding:.15rem 0}
.lane span{font-size:.875rem;display:flex;justify-content:space-between;gap:.5rem}
.lane svg{display:block;width:100%;height:1.75rem}
.lanes+.axis{margin-left:10.75rem}
.lane b{font-weight:600;font-variant-numeric:tabular-nums}
details{margin:.4rem 0 0;font-size:.875rem}
summary{cursor:pointer;color:var(--link);width:max-content}
.scroll{overflow-x:auto;margin-top:.9rem;max-width:100%}
details .scroll{max-height:22rem;overflow-y:auto}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--b);
outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.875rem}
caption{text-align:left;font-size:.9rem;padding-bottom:.25rem}
th,td{text-align:left;vertical-align:top;padding:.35rem 1rem .35rem 0;
border-bottom:1px solid var(--line)}
th{font-weight:600}tbody th{font-weight:400;overflow-wrap:break-word;min-width:6rem;max-width:26rem}
thead th{white-space:nowrap;border-bottom-color:var(--muted)}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td:last-child,th:last-child{padding-right:0}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:nowrap}
p code{white-space:normal;overflow-wrap:anywhere}
.bar{display:block;width:7rem;height:.6rem;margin-top:.4rem;border-radius:2px}
.state{font-weight:600}.state,.moment{white-space:nowrap}
.state.error{color:var(--e)}.state.warning{color:var(--w)}.state.good{color:var(--good)}
.state.info{color:var(--muted)}
.empty{background:var(--card);border:1px dashed var(--line);border-radius:.5rem;
padding:.75rem 1rem;margin-top:.9rem}
.broken{background:var(--card);border-left:4px solid var(--e);padding:.75rem 1rem;
margin-top:.9rem;overflow-wrap:anywhere}
footer{margin-top:3rem;padding-bottom:2.5rem}
@media (max-width:40rem){header,main,footer,nav{padding-left:1rem;padding-right:1rem}
.lane{grid-template-columns:1fr;gap:.1rem}.lanes+.axis{margin-left:0}
.lane span{justify-content:flex-start}
.tiles{grid-template-columns:1fr 1fr}
.axis{font-size:.75rem}.bar{width:4rem}
.stacked thead,.stacked td:empty{display:none}.stacked caption,.stacked tbody{display:block}
.stacked tr{display:block;padding:.35rem 0;border-bottom:1px solid var(--line)}
.stacked th,.stacked td{display:block;padding:.1rem 0;border:0;max-width:none;
overflow-wrap:anywhere}
.stacked td::before{content:attr(data-head) ": ";color:var(--muted)}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--text:#000;--muted:#444;
--line:#bbb;--a:#84aee6;--b:#1d4f9c;--s:#3f9d87;--w:#8a5200;--e:#a11e17;--rail:#eee;--link:#000;
--good:#14532d}
nav,summary{display:none}body{font-size:11pt}figure,tr,.tile{break-inside:avoid}
h2{break-after:avoid}.scroll{overflow:visible}rect,i{print-color-adjust:exact}}
"""
"""Light and dark follow the reader's setting; print is light."""
