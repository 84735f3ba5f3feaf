#include "report/style.h"

namespace plimsoll {

const char* const kStyle = R"css(
:root{color-scheme:light dark;--bg:#fff;--card:#f6f7f9;--ink:#1a1f26;--dim:#59636f;--grid:#e3e7eb;--edge:#c9d0d7;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8578b;--c4:#e69f00;--c5:#56b4e9;--c6:#c9b400;--c7:#868f99}
@media (prefers-color-scheme:dark){:root{--bg:#14181d;--card:#1d232a;--ink:#e6eaee;--dim:#a0abb6;--grid:#2b333c;--edge:#465059;
--c0:#4aa8e8;--c1:#f2803b;--c2:#2cc295;--c3:#e09ac0;--c4:#f3b63a;--c5:#a5dbfa;--c6:#efe35a;--c7:#7d8894}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:1080px;padding:28px 24px 48px;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
header p{margin:2px 0}
h1{font-size:24px;line-height:1.25;margin:0 0 4px}
h2{font-size:18px;margin:44px 0 10px;padding-top:14px;border-top:1px solid var(--edge)}
h3{font-size:15px;margin:26px 0 6px}
a{color:var(--c0)}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;margin:18px 0 0;font-size:14px}
.state{display:inline-block;padding:1px 10px;border:1.5px solid;border-radius:999px;font-size:13px;font-weight:600;vertical-align:4px;
margin-left:8px;white-space:nowrap}
.done{color:var(--c2)}.running{color:var(--c0)}.failed{color:var(--c1)}.interrupted{color:var(--c4)}.unreadable{color:var(--c7)}
.verdict{font-size:18px;line-height:1.4;margin:14px 0 16px;max-width:60em}
.dim{color:var(--dim);font-size:14px}
.six{display:grid;grid-template-columns:repeat(6,1fr);gap:10px;margin:0;padding:0}
.six div{background:var(--card);border-radius:8px;padding:10px 12px;min-width:0}
.six dt{color:var(--dim);font-size:13px}
.six dd{margin:0;font-size:21px;font-weight:600;line-height:1.3;font-variant-numeric:tabular-nums}
.six small{display:block;color:var(--dim);font-size:12.5px;font-weight:400;line-height:1.35}
.warnings{list-style:none;margin:18px 0 0;padding:0}
.warnings li{border-left:4px solid var(--c4);background:var(--card);padding:7px 12px;margin:6px 0;border-radius:0 6px 6px 0}
.warnings .error{border-color:var(--c1)}
code{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
pre{background:var(--card);border-radius:8px;padding:12px 14px;margin:8px 0;white-space:pre-wrap}
figure{margin:18px 0 22px;break-inside:avoid}
figcaption{display:flex;flex-wrap:wrap;gap:0 12px;align-items:baseline;margin-bottom:2px}
.unit,.axis,.note{color:var(--dim);font-size:12.5px}
.axis{margin:22px 12px 0 64px;text-align:center}
.note{margin:4px 0 0}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:2px 0 20px;padding:0;font-size:13px}
.legend li{display:flex;align-items:center;gap:6px}
.key{flex:none}
.plot{display:block;width:calc(100% - 78px);margin:0 14px 0 64px;overflow:visible}
.bar{display:block;border-radius:4px;margin:6px 0 8px}
.share{display:block;width:110px;margin-top:5px}
.grid{stroke:var(--grid)}
.tick{fill:var(--dim);font-size:11.5px;font-variant-numeric:tabular-nums}
.word{font-size:11.5px;font-weight:600;fill:var(--ink);paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}
.thin,.only,.line,.rule{fill:none;vector-effect:non-scaling-stroke}
.thin{stroke-width:1;opacity:.5}.only{stroke-width:1.2;opacity:.9}
.line{stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.rule{stroke-width:1.5;stroke-dasharray:5 4}
.dashed{stroke-dasharray:7 5}.dotted{stroke-dasharray:1.5 5}
.ring{fill:var(--bg);fill-opacity:.55;stroke-width:2.5}
.area{stroke:var(--bg);stroke-width:.6;vector-effect:non-scaling-stroke}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
.s6{stroke:var(--c6)}.s7{stroke:var(--c7)}.s8{stroke:var(--ink)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}
.f7{fill:var(--c7)}.f8{fill:var(--ink)}
text.word{fill:var(--ink)}
.scroll{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--dim);font-size:13px;padding-bottom:4px}
th,td{text-align:left;vertical-align:top;padding:4px 22px 4px 0;border-bottom:1px solid var(--grid);font-weight:400}
thead th{color:var(--dim);font-size:13px;border-color:var(--edge)}
th,td{overflow-wrap:break-word}
td code,th code,table:not(.numbers) td{overflow-wrap:anywhere}
tbody th{color:var(--dim)}
.numbers tbody th,.numbers td{white-space:nowrap}
.numbers td,.numbers thead th+th{text-align:right}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:0 40px}
footer{margin-top:48px;color:var(--dim);font-size:13px}
@media (max-width:900px){.six{grid-template-columns:repeat(3,1fr)}}
@media (max-width:520px){body{padding:18px 14px 36px}.six{grid-template-columns:repeat(2,1fr)}.verdict{font-size:16px}
.plot{width:calc(100% - 64px);margin:0 8px 0 56px}.axis{margin-left:56px}th,td{padding-right:12px}.numbers tbody th{white-space:normal}
.share{width:44px}}
@media print{:root{color-scheme:light;--bg:#fff;--card:#f3f4f6;--ink:#000;--dim:#444;--grid:#ddd;--edge:#bbb;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b8578b;--c4:#e69f00;--c5:#56b4e9;--c6:#c9b400;--c7:#868f99}
body{max-width:none;padding:0;font-size:12px}nav{display:none}.scroll{overflow:visible}h2{break-after:avoid;margin-top:26px}
tr,.warnings li,.six{break-inside:avoid}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

}  // namespace plimsoll
