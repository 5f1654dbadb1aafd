#include "eval/html_style.h"

namespace pith {

// Text stands at 4.5:1 or more against its ground, lines at 3:1. The hues stay apart for
// colour-blind eyes; marker and dash say the same once more.
std::string_view html_style() {
  return R"css(
:root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--ink:#1c1f23;--soft:#565d66;--rule:#dfe1e4;
--grid:#e9eaec;--best:#e8f3ec;--hue0:#0072b2;--hue1:#c9530a;--hue2:#00805c;--hue3:#ad4c88;--hue4:#9c6b00;
--hue5:#2b87bd;--muted:#83898f;--part0:#0072b2;--part1:#b37a00;--part2:#ad4c88;--shade:#0b5c8f}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1b1f23;--ink:#e8eaec;--soft:#a7aeb6;
--rule:#343a41;--grid:#2a2f35;--best:#1d3328;--hue0:#58a9e8;--hue1:#f58a4b;--hue2:#3fc498;--hue3:#e58fc4;
--hue4:#dcae3c;--hue5:#8cc8ee;--muted:#8b929a;--part0:#58a9e8;--part1:#dcae3c;--part2:#e58fc4;--shade:#7cc0f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 20px}
header{padding-top:40px}
h1{font-size:15px;font-weight:600;color:var(--soft);margin:0 0 10px}
.verdict{font-size:27px;line-height:1.28;font-weight:650;letter-spacing:-.01em;margin:0 0 14px;max-width:34em;text-wrap:balance}
h2{font-size:20px;line-height:1.3;margin:52px 0 6px}
h3{font-size:15px;margin:0 0 8px;font-weight:600}
p{margin:0 0 14px;max-width:46em}
.soft,figcaption{color:var(--soft);font-size:14px}
.two,.many{display:grid;gap:20px;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}
.wide{max-width:600px}
.many{grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr))}
figure{margin:0;padding:16px 18px;background:var(--card);border:1px solid var(--rule);border-radius:10px;min-width:0}
figcaption{margin-top:8px}
.chart{display:block;width:100%;height:auto;max-width:560px}
.chart text{font-size:13px;fill:var(--ink)}
.chart .title,.chart .end,.chart .middle{fill:var(--soft)}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--grid)}.axis{stroke:var(--muted)}
.hue0{--c:var(--hue0)}.hue1{--c:var(--hue1)}.hue2{--c:var(--hue2)}.hue3{--c:var(--hue3)}.hue4{--c:var(--hue4)}
.hue5{--c:var(--hue5)}.muted{--c:var(--muted)}
.line{fill:none;stroke:var(--c);stroke-width:2.2;stroke-linejoin:round}
.muted .line{stroke-width:1.5}
.dash1 .line{stroke-dasharray:7 4}.dash2 .line{stroke-dasharray:2 3}.dash3 .line{stroke-dasharray:9 3 2 3}
.dot,.bar{fill:var(--c)}
.error{stroke:var(--c);stroke-width:1.3;opacity:.55}
.whisker{stroke:var(--ink);stroke-width:1.4}
.part0{--c:var(--part0)}.part1{--c:var(--part1)}.part2{--c:var(--part2)}
.ground{fill:none;stroke:var(--rule)}
.heat{fill:var(--shade)}
.cells path{stroke:var(--shade);fill:none}
.shade1{opacity:.25}.shade2{opacity:.5}.shade3{opacity:.75}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:14px 0;padding:0;font-size:14px}
.legend li{display:flex;align-items:center;gap:7px}
.key{width:34px;height:14px;flex:none}
.swatch{width:12px;height:12px;border-radius:2px;background:var(--c)}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:10px;background:var(--card);margin:0 0 14px}
table{border-collapse:collapse;width:100%;overflow-wrap:normal;font-size:14px}
th,td{padding:7px 12px;text-align:right;white-space:nowrap;border-top:1px solid var(--rule)}
thead th{border-top:0;color:var(--soft);font-weight:600}
th:first-child,td.word{text-align:left}
tbody th{font-weight:600}
.words thead th{white-space:normal}
.words :is(th,td):nth-child(2){text-align:left}.many .chart text{font-size:16px}
tr.best>*{background:var(--best)}
code{font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace}
dl{display:grid;grid-template-columns:minmax(90px,max-content) minmax(0,1fr);gap:8px 18px;margin:0;font-size:14px}
dt{color:var(--soft)}dd{margin:0}
ul.plain{margin:0;padding-left:18px;font-size:14px;max-width:46em}
summary{cursor:pointer;font-size:14px;padding:6px 0}
footer{padding-bottom:60px}
@media(max-width:640px){main,header,footer{padding-left:14px;padding-right:14px}header{padding-top:24px}
.verdict{font-size:22px}h2{margin-top:40px}figure{padding:12px}.chart text{font-size:15.5px}
dl{grid-template-columns:1fr;gap:2px}dd{margin-bottom:8px}}
@media print{body{background:#fff}figure{break-inside:avoid}}
)css";
}

}  // namespace pith
