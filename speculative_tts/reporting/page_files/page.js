"use strict";
// The summary, and tables and figures behind tabs. Texts are only ever set as text.

function el(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const sections = [...document.querySelectorAll("script[data-section]")].map((e) => ({ name: e.dataset.section, ...JSON.parse(e.textContent) }));
const short = (section) => section.title.split(":")[0];
const interval = (v, digits = 1) => v[1] === null ? "" : ` [${v[1].toFixed(digits)}, ${v[2].toFixed(digits)}]`;
const named = (p) => p.section.name === "mtp" ? `MTP, ${p.label}` : p.label;

function withCode(place, text) {
  text.split(/`([^`]*)`/).forEach((part, i) => place.append(i % 2 ? el("code", { textContent: part }) : part));
  return place;
}

function summary() {
  const points = sections.flatMap((section) => section.points.map((p) => ({ ...p, section })));
  const timed = points.filter((p) => p.speedup && p.speedup[0] > .3), methods = timed.filter((p) => p.speedup[1] !== null && p.key !== "draft");
  const sure = methods.filter((p) => p.difference && p.difference[1] !== null);
  const best = (list) => list.reduce((m, p) => !m || p.speedup[0] > m.speedup[0] ? p : m, null);
  const harmless = best(sure.filter((p) => p.difference[1] <= 0)), fastest = best(methods);
  const answer = (question, ...parts) => el("div", {}, el("dt", { textContent: question }), el("dd", {}, ...parts));
  const times = (p) => el("b", { textContent: `${p.speedup[0].toFixed(2)}×` });
  const counts = points.map((p) => p.n).filter(Boolean);
  const answers = el("dl", { className: "answers" },
    answer("What", `${[...new Set(sections.filter((s) => s.points.length).map(short))].join(", ")}: systems that speak the same utterances, each beside its own target alone, decoded token by token.`),
    harmless ? answer("How much faster", times(harmless), `${interval(harmless.speedup, 2)} by ${named(harmless)}: `
      + (harmless.speedup[0] > 1 ? "the most without a loss of words that shows." : "nothing that keeps its words is faster on this machine."))
      : answer("How much faster", fastest ? times(fastest) : timed.length ? "Too few utterances to say; the plot shows what was measured." : "Not timed.", fastest ? `${interval(fastest.speedup, 2)} by ${named(fastest)}, the fastest here.` : ""),
    answer("What it costs", ...cost(harmless, fastest, sure)),
    answer("How sure", counts.length ? `${Math.min(...counts) === Math.max(...counts) ? counts[0] : `${Math.min(...counts)} to ${Math.max(...counts)}`} utterances a system; ${timed.some((p) => p.speedup[1] !== null) ? "bars are 95 % intervals" : "below ten nothing has an interval"}. ` : "",
      "Models, data and machine are not the papers': compare order, not level."));
  const place = el("div"), picture = el("div", {}, el("h2", { textContent: "Speed against word errors" }));
  const entries = sections.filter((s) => s.points.length).map((s) => ({ label: short(s), colour: `var(--c${sections.indexOf(s) % 5})`, shape: SHAPES[sections.indexOf(s) % 5] }));
  const still = points.filter((p) => !p.speedup && sections.some((s) => s.points.some((q) => q.speedup)));
  if (still.length) entries.push({ label: "not timed here: " + [...new Set(still.map((p) => p.label))].join(", "), colour: "var(--soft)", dash: "6 4" });
  picture.append(legend(entries), el("small", { textContent: "Word errors %, lower is better; to the right is faster" }), place);
  const usual = Math.max(...timed.filter((p) => p.key !== "draft").map((p) => p.wer[0]));
  chart(place, { log: true, chosen: 1, x: "times as fast as the target alone", alt: "Speed against word errors of all methods",
    levels: still.map((p) => ({ y: p.wer[0], colour: "var(--soft)" })),
    points: timed.map((p) => ({ x: p.speedup[0], left: p.speedup[1], right: p.speedup[2], y: p.wer[0], low: p.wer[1], high: p.wer[2], aside: p.key === "draft" && p.wer[0] > 2 * usual,
      tag: p.label.replace(/^Target \+ /, "").replace(/^Target alone,? ?/, "target ").trim(), colour: `var(--c${sections.indexOf(p.section) % 5})`, shape: SHAPES[sections.indexOf(p.section) % 5],
      about: `${named(p)}: ${p.speedup[0].toFixed(2)}×${interval(p.speedup, 2)}, word errors ${p.wer[0].toFixed(1)} %${interval(p.wer)}` })) });
  const listen = listening(sections), first = el("div", { className: "first" }, picture);
  if (listen) first.append(listen);
  document.getElementById("summary").append(answers, first);
}

function cost(harmless, fastest, sure) {
  const signed = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.abs(v).toFixed(1)}`;
  const told = (p) => `${signed(p.difference[0])} points of word errors [${signed(p.difference[1])}, ${signed(p.difference[2])}]`;
  if (!sure.length) return ["No system was tested against its target: that needs both, and ten utterances at least."];
  if (!harmless) return [`Words: ${told(sure[0])} (${named(sure[0])}).`];
  const worse = fastest !== harmless && fastest.difference && fastest.difference[1] > 0;
  return [`That one: ${told(harmless)}. `, worse ? `The fastest, ${named(fastest)} (${fastest.speedup[0].toFixed(2)}×): ${told(fastest)}.` : ""];
}

let made = 0;
function tabs(items, className = "") {
  const list = el("div", { role: "tablist" }), box = el("div", { className }, list), pairs = [];
  const select = (index, focus) => pairs.forEach(([tab, panel, fill], i) => {
    tab.ariaSelected = i === index; tab.tabIndex = i === index ? 0 : -1; panel.hidden = i !== index;
    if (i === index && !panel.childNodes.length) panel.append(...fill());
    if (i === index && focus) tab.focus();
  });
  for (const [title, fill] of items) {
    const id = `tab${made++}`, tab = el("button", { type: "button", role: "tab", id, textContent: title });
    const panel = el("div", { role: "tabpanel", hidden: true });
    panel.setAttribute("aria-labelledby", id);
    const index = pairs.push([tab, panel, fill]) - 1;
    tab.onclick = () => select(index);
    tab.onkeydown = ({ key }) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: pairs.length - 1 }[key];
      if (to !== undefined) select((to + pairs.length) % pairs.length, true);
    };
    list.append(tab);
    box.append(panel);
  }
  select(0);
  return box;
}

// columns: [title, sub, class]; rows: {label, rule, cells: [[text, below, number] or [node, "", number]]}
function sortable(columns, rows) {
  const body = el("tbody"), head = el("tr", {}, el("th", { scope: "col" })), table = el("table", {}, el("thead", {}, head), body);
  const put = (shown, plain) => body.replaceChildren(...shown.map((row) => {
    const line = el("tr", { className: row.rule && plain ? "rule" : "" }, el("th", { scope: "row", textContent: row.label }));
    row.cells.forEach(([text, below], i) => line.append(el("td", { className: columns[i][2] || "" }, text, below ? el("small", { textContent: below }) : "")));
    return line;
  }));
  columns.forEach(([title, sub, kind], i) => {
    const button = el("button", { type: "button" }, title, sub ? el("small", { textContent: sub }) : "");
    const cell = el("th", { scope: "col", className: kind || "" }, button);
    button.onclick = () => {
      const down = cell.ariaSort === "ascending", value = (row) => row.cells[i][2] ?? parseFloat(row.cells[i][0]);
      for (const other of head.children) other.ariaSort = null;
      cell.ariaSort = down ? "descending" : "ascending";
      put([...rows].sort((a, b) => { const [p, q] = [value(a), value(b)]; return isNaN(p) ? 1 : isNaN(q) ? -1 : down ? q - p : p - q; }), false);
    };
    head.append(cell);
  });
  put(rows, true);
  return [el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Table" }, table), (shown) => { rows = shown; put(rows, true); }];
}

const said = new Map(); // sentences that several tables say stand once, in the glossary
for (const item of sections.flatMap((s) => [...s.tables, ...s.figures])) for (const line of new Set([...item.caption, ...item.notes])) said.set(line, (said.get(line) || 0) + 1);

function around(section, item, endings) {
  const own = (lines) => lines.filter((line) => said.get(line) === 1);
  const parts = [];
  if (own(item.caption).length) parts.push(el("p", { className: "soft", textContent: own(item.caption).join(" ") }));
  if (own(item.notes).length) parts.push(el("ul", { className: "notes" }, ...own(item.notes).map((note) => withCode(el("li"), note))));
  const folded = (title, lines) => el("details", {}, el("summary", { textContent: title }), el("ul", {}, ...lines.map((line) => withCode(el("li"), line))));
  if (item.missing.length) parts.push(folded(`${item.missing.length} systems have no run yet: how to make them`, item.missing));
  if (item.origin.length) parts.push(folded("How these numbers were made", item.origin));
  parts.push(el("p", { className: "soft" }, "Files: ", ...endings.flatMap((ending) => [el("a", { href: `${section.name}/${item.name}.${ending}`, textContent: ending }), " "]),
    " What the words mean: last tab."));
  return parts;
}

function tablePanel(section, table) {
  const parts = [el("h3", { textContent: table.title })];
  if (table.warning) parts.push(el("p", { className: "bad", textContent: table.warning }));
  for (const block of table.blocks) {
    const columns = block.headings.map((h) => [h.group, h.sub, h.name.startsWith("paper_") || h.name.startsWith("goal_") ? "paper" : ""]);
    parts.push(el("h4", { textContent: block.title }), sortable(columns, block.lines)[0]);
  }
  return [...parts, ...around(section, table, ["md", "csv", "tex"])];
}

function figurePanel(section, figure) {
  return [el("h3", { textContent: figure.title }), figure.warning ? el("p", { className: "bad", textContent: figure.warning }) : "",
    el("div", { className: "plots" }, ...figure.plots.map(figurePlot)), ...around(section, figure, ["png", "svg", "csv"])];
}

function utterancePanel(section) {
  const filter = el("input", { type: "search", placeholder: "filter by words, speaker or id", ariaLabel: "Filter utterances" });
  const count = el("small");
  const rows = section.utterances.map((u) => ({ label: `${u.text} (${u.speaker ? u.speaker + ", " : ""}${u.id})`,
    cells: u.clips.map((clip) => { const line = words(clip); return [el("div", {}, el("b", { textContent: clip.errors ?? "" }), line), "", clip.errors ?? NaN]; }) }));
  const [table, put] = sortable(section.systems.map((s) => [s, "word errors, and what was heard", "words"]), rows);
  const apply = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean), kept = rows.filter((row) => wanted.every((word) => row.label.toLowerCase().includes(word)));
    count.textContent = ` ${kept.length} of ${rows.length} utterances`;
    put(kept);
  };
  filter.oninput = apply;
  apply();
  const key = el("p", { className: "soft" }, el("span", { className: "substitute", textContent: "another word" }), ", ", el("span", { className: "insert", textContent: "said too much" }), ", ", el("span", { className: "delete", textContent: "not heard" }));
  return [el("h3", { textContent: "Every utterance" }), el("p", {}, filter, count), key, table];
}

function glossary() {
  const lines = [...said].filter(([, times]) => times > 1).map(([line]) => line);
  return [el("h3", { textContent: "What the words mean" }), el("ul", {}, ...lines.map((line) => withCode(el("li"), line)))];
}

function panel(section) {
  const items = [...section.tables.map((t) => [t.title.split(":")[0], () => tablePanel(section, t)]), ...section.figures.map((f) => [f.title.split(":")[0].replace(/ \(.*/, ""), () => figurePanel(section, f)])];
  const titles = items.map(([title]) => title);
  items.forEach((item, i) => { if (titles.indexOf(item[0]) !== titles.lastIndexOf(item[0])) item[0] = [...section.tables, ...section.figures][i].name; });
  if (section.utterances.length) items.push(["Utterances", () => utterancePanel(section)]);
  if (section.not_reproduced.length) items.push(["Not reproduced", () => [el("ul", {}, ...section.not_reproduced.map((line) => el("li", { textContent: line })))]]);
  return [el("p", { textContent: section.introduction }), tabs(items, "inner")];
}

summary();
document.getElementById("papers").append(tabs([...sections.map((s) => [short(s), () => panel(s)]), ["What the words mean", glossary]]));
