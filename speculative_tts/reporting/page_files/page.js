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

// Sets `code` and *emphasis* of Markdown; a long path of code may be broken at its slashes.
function marked(place, text) {
  text.split(/(`[^`]*`|\*[^*]+\*)/).forEach((part, i) => {
    if (i % 2 === 0) return place.append(part);
    const made = el(part[0] === "`" ? "code" : "em");
    part.slice(1, -1).split(/(?<=[/,=])/).forEach((piece, k) => made.append(...(k ? [el("wbr")] : []), piece));
    place.append(made);
  });
  return place;
}

const answers = JSON.parse(document.querySelector("script[data-answers]").textContent);
const times = (p) => el("b", { textContent: `${p.speedup[0].toFixed(2)}×` });
const signed = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.abs(v).toFixed(2)}`;
const file = (p, of) => el("a", { href: `${p[of + "_table"]}.md`, textContent: p[of + "_table"] });
const counted = (n, one, many) => `${n} ${n === 1 ? one : many}`;

function faster() {
  const { lossless, within, margin } = answers;
  if (!lossless && !within) return ["Too few timed utterances to say; the plot shows what was measured."];
  const parts = lossless ? [times(lossless), ` as fast as the model alone${interval(lossless.speedup, 2)} (tokens a second, without the codec), without any loss: ${lossless.label}${of(lossless)}.`] : [];
  if (!within || same(lossless, within)) return [...parts, el("br"), `Nothing faster is sure to lose less than ${counted(margin, "point", "points")} of words.`];
  return [...parts, el("br"), times(within), `${interval(within.speedup, 2)} with less than ${counted(margin, "point", "points")} more word errors: ${within.label}${lossless && lossless.target === within.target ? "" : of(within)}.`];
}

const of = (p) => p.target ? `, of the target ${p.target}` : "";
const same = (a, b) => a && b && a.section === b.section && a.key === b.key;

// What the bound of a loss is worth: it was not named before the list that the page shows.
const SECOND_LIST = ", a bound named when figures of the test list that ships were known. On a second list, for which it was named beforehand, SSD by the recurrent layer keeps it beside the target alone, not beside the exact rule, which has the target's distribution (results/registered/retest)";

function cost() {
  const { lossless, within, margin } = answers, parts = [];
  if (lossless) parts.push(el("b", { textContent: "Nothing" }), " for the lossless one: its rule keeps the target's distribution. ");
  if (within && !same(lossless, within)) parts.push(`For the other ${signed(within.difference[0])} points of word errors [${signed(within.difference[1])}, ${signed(within.difference[2])}] on ${within.difference_n} utterances (`,
    file(within, "difference"), `): the upper end is below the ${counted(margin, "point", "points")} allowed${document.body.dataset.own ? "" : SECOND_LIST}.`);
  return parts.length ? parts : ["No system was tested against its target: that needs both, and ten utterances at least."];
}

function certainty() {
  const told = [answers.lossless, answers.within].filter((p, i, all) => p && !(i && same(all[0], p)));
  const places = [...new Map(told.map((p) => [p.speedup_table, p])).values()];
  return [...places.flatMap((p) => [`Timed on ${p.speedup_n} utterances in ${counted(p.processes, "process", "processes")}, ${p.machine || "machine unknown"} (`, file(p, "speedup"), "). "]),
    told.length ? "Brackets are 95 % intervals; the fastest has the highest lower end. " : "Below ten utterances nothing has an interval. ", document.body.dataset.own ? "" : "Another hour may differ by 0.1 to 0.2 (results/speeds/hours). Models, data and machine are not the papers': compare what methods buy and cost, not levels."];
}

function summary() {
  const points = sections.flatMap((section) => section.points.filter((p) => p.drawn).map((p) => ({ ...p, section })));
  const best = [answers.lossless, answers.within].filter((p, i, all) => p && !(i && same(all[0], p))).map((p) => ({ ...p, section: sections.find((s) => s.name === p.section), best: true }));
  const drawn = [...points.filter((p) => !best.some((q) => q.section === p.section && q.label === p.label)), ...best];
  const timed = drawn.filter((p) => p.speedup && p.speedup[0] > .3);
  const shown = [...new Set(timed.map((p) => p.section))];
  const answer = (question, ...parts) => el("div", {}, el("dt", { textContent: question }), el("dd", {}, ...parts));
  const listen = listening(sections), list = el("dl", { className: "answers" },
    answer("How much faster", ...faster(), ...(listen ? [" ", el("a", { href: "#listen", textContent: "Hear the rules side by side" }), "."] : [])), answer("What it costs", ...cost()), answer("How sure", ...certainty()),
    answer("What", `${[...new Set((shown.length ? shown : sections).map((s) => s.title))].join("; ")}. All speak the same texts, each beside its own target alone, decoded token by token.`));
  const SYSTEMS = SHAPES.filter((_, i) => i !== 2); // a triangle is what lies outside
  const look = (section) => ({ colour: `var(--c${shown.indexOf(section) % 5})`, shape: SYSTEMS[(shown.indexOf(section) + Math.floor(shown.indexOf(section) / 5)) % 4] });
  const place = el("div"), picture = el("div", {}, el("h2", { textContent: "Speed against word errors" }));
  picture.append(legend(shown.map((section) => ({ label: short(section), ...look(section) }))), el("small", { textContent: "Word errors %, lower is better; to the right is faster. Triangles at the edge lie outside, at the figures beside them. Touch a mark for its name, follow it to the table of its speed." }), place);
  const floor = points.find((p) => p.key === "codec");
  const tag = (p) => p.best ? `${p.speedup[0].toFixed(2)}×, ${p.lossless ? "no loss" : `under ${counted(answers.margin, "point", "points")}`}` : p.label.replace(/^Target \+ /, "").replace(/^Target alone,? ?/, "target ").trim();
  if (timed.length) chart(place, { log: true, chosen: 1, x: "times as fast as the target alone", alt: "Speed against word errors of all methods",
    levels: floor && timed.length ? [{ y: floor.wer[0], colour: "var(--soft)", label: floor.label.toLowerCase() }] : [],
    points: timed.map((p) => ({ x: p.speedup[0], left: p.speedup[1], right: p.speedup[2], y: p.wer[0], low: p.wer[1], high: p.wer[2], aside: p.failed, tag: tag(p), bold: p.best, outside: `${tag(p).toLowerCase()}: ${Math.round(p.wer[0])} %, ${p.speedup[0].toFixed(1)}×`, ...look(p.section),
      about: `${named(p)}: ${p.speedup[0].toFixed(2)}×${interval(p.speedup, 2)}, word errors ${p.wer[0].toFixed(1)} %${interval(p.wer)}; timed in ${counted(p.processes, "process", "processes")}`, href: `${p.speedup_table}.md` })) });
  const first = el("div", { className: "first" }, picture);
  if (listen) first.append(listen);
  document.getElementById("summary").append(list, first);
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
  list.hidden = items.length < 2;
  select(0);
  return box;
}

const VERDICTS = { shows: "good", opposite: "bad" }; // the others are open

// columns: [title, sub, class]; rows: {label, rule, cells: [[text, below, number] or [node, "", number]]}
function sortable(columns, rows) {
  const body = el("tbody"), head = el("tr", {}, el("th", { scope: "col" })), table = el("table", {}, el("thead", {}, head), body);
  const put = (shown, plain) => body.replaceChildren(...shown.map((row) => {
    const line = el("tr", { className: row.rule && plain ? "rule" : "" }, el("th", { scope: "row", textContent: row.label }));
    row.cells.forEach(([text, below], i) => {
      const cell = line.appendChild(el("td", { className: columns[i][2] || "" }));
      if (typeof text === "string") marked(cell, text); else cell.append(text);
      if (below) cell.append(el("small", { textContent: below }));
      cell.dataset.title = columns[i][0];
      if (columns[i][2] === "verdict") cell.dataset.verdict = VERDICTS[text] || "open";
    });
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

// What quantities mean stands once, in the glossary; how many utterances, and which way is better, stays with its table.
const said = new Map(), general = (line, i) => i > 0 && !line.startsWith("Better:");
for (const item of sections.flatMap((s) => [...s.tables, ...s.figures])) for (const line of new Set(item.caption.filter(general))) said.set(line, (said.get(line) || 0) + 1);

function around(section, item, endings) {
  const own = item.caption.filter((line, i) => !general(line, i) || said.get(line) === 1), parts = [];
  if (own.length) parts.push(marked(el("p", { className: "soft" }), own.join(" ")));
  if (item.notes.length) parts.push(el("ul", { className: "notes" }, ...item.notes.map((note) => marked(el("li"), note))));
  const folded = (title, lines) => el("details", {}, el("summary", { textContent: title }), el("ul", {}, ...lines.map((line) => marked(el("li"), line))));
  if (item.missing.length) parts.push(folded("Systems without a run, and how to make them", item.missing));
  if (item.origin.length) parts.push(folded("How these numbers were made", item.origin));
  parts.push(el("p", { className: "soft" }, "Files: ", ...endings.flatMap((ending) => [el("a", { href: `${section.name}/${item.name}.${ending}`, textContent: ending }), " "]),
    " What the words mean: last tab."));
  return parts;
}

function tablePanel(section, table) {
  const parts = [el("h3", { textContent: table.title })];
  if (table.warning) parts.push(el("p", { className: "bad", textContent: table.warning }));
  for (const block of table.blocks) {
    const ofClaims = section.name === "claims";
    const columns = block.headings.map((h) => [h.group, h.sub, h.name.startsWith("paper_") || h.name.startsWith("goal_") ? "paper" : ofClaims ? h.group === "verdict" ? "verdict" : "words" : ""]);
    const shown = sortable(columns, block.lines)[0];
    if (ofClaims) shown.classList.add("cards");
    parts.push(el("h4", { textContent: block.title }), shown);
  }
  return [...parts, ...around(section, table, ["md", "csv", "tex"])];
}

function figurePanel(section, figure) {
  return [el("h3", { textContent: figure.title }), figure.warning ? el("p", { className: "bad", textContent: figure.warning }) : "",
    el("div", { className: "plots" }, ...figure.plots.map(figurePlot)), ...around(section, figure, ["png", "svg", "pdf", "csv"])];
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
  return [el("h3", { textContent: "What the words mean" }), el("ul", {}, ...lines.map((line) => marked(el("li"), line)))];
}

function panel(section) {
  const parts = [...section.tables.map((t) => [t, tablePanel]), ...section.figures.map((f) => [f, figurePanel])];
  const begins = (one) => one.title.split(":")[0].replace(/ \(.*/, ""), alike = (one) => parts.filter(([other]) => begins(other) === begins(one)).length > 1;
  const named = (one) => alike(one) && one.title.includes(": ") ? one.title.slice(one.title.indexOf(": ") + 2) : begins(one);
  const items = parts.map(([one, fill]) => [named(one).replace(/^./, (c) => c.toUpperCase()), () => fill(section, one)]);
  if (section.utterances.length) items.push(["Utterances", () => utterancePanel(section)]);
  if (section.not_reproduced.length) items.push(["Not reproduced", () => [el("ul", {}, ...section.not_reproduced.map((line) => el("li", { textContent: line })))]]);
  return [el("p", { textContent: section.introduction }), tabs(items, "inner")];
}

summary();
document.getElementById("papers").append(tabs([...sections.map((s) => [short(s), () => panel(s)]), ["What the words mean", glossary]]));
