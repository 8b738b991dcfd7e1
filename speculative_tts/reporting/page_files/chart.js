"use strict";
// Plots as SVG, drawn anew for each width; colours are the style sheet's.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-4-4h8v8h-8z", "M0-5l5 9h-10z", "M0-5.5l4.5 5.5l-4.5 5.5l-4.5-5.5z", "M0 5l5-9h-10z"];
const LEVELS = ["M0-6l1.6 4.2 4.4.2-3.5 2.8 1.2 4.3L0 3 -3.7 5.5-2.5 1.2-6-1.6l4.4-.2z", "M-1.5-5.5h3v4h4v3h-4v4h-3v-4h-4v-3h4z", "M-5-3l2-2 3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z"];

function svg(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * .999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(+at.toPrecision(10));
  return found;
}

// points: {x, y, low, high, left, right, tag, colour, shape, aside, outside, href}; an `aside` one frames nothing,
// and `outside` is said of one that lies beyond the frame.
function chart(place, { points, lines = [], levels = [], x, sweep, chosen, log = false, alt }) {
  const draw = () => {
    const width = Math.max(280, Math.min(620, place.clientWidth || 480)), height = Math.round(Math.min(350, width * .72));
    const [left, right, top, bottom] = [44, 14, 12, 40];
    const framing = points.filter((p) => !p.aside), kept = framing.length ? framing : points;
    const ys = kept.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]).concat(levels.map((l) => l.y));
    const xs = kept.flatMap((p) => [p.x, p.left ?? p.x, p.right ?? p.x]).concat(log ? [1] : []);
    let [low, high] = [Math.min(...ys), Math.max(...ys)], [first, last] = [Math.min(...xs), Math.max(...xs)];
    const room = .08 * (high - low || Math.abs(high) || 1);
    low = low >= 0 && low < .5 * high ? 0 : low - room; high += room;
    const scale = log ? Math.log : (v) => v, margin = .06 * (scale(last) - scale(first) || 1);
    const across = (v) => (scale(Math.max(first, Math.min(last, v))) - scale(first) + margin) / (scale(last) - scale(first) + 2 * margin || 1);
    const atX = (v) => left + (width - left - right) * across(v);
    const freely = (v) => top + (height - top - bottom) * (high - v) / (high - low);
    const atY = (v) => freely(Math.max(low, Math.min(high, v)));
    const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": alt });
    for (const tick of ticks(low, high, 5)) {
      picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: atY(tick), y2: atY(tick) }));
      picture.append(svg("text", { class: "soft", x: left - 6, y: atY(tick) + 4, "text-anchor": "end" }, tick));
    }
    const marks = sweep && sweep.length ? sweep : log && last > 2.5 * first ? [.5, .75, 1, 1.5, 2, 3, 4, 6, 8, 12].filter((t) => t >= first * .95 && t <= last * 1.05) : ticks(first, last, Math.floor(width / 80));
    for (const tick of marks) picture.append(svg("text", { class: "soft", x: atX(tick), y: height - bottom + 15, "text-anchor": "middle" }, +(+tick).toPrecision(3)));
    picture.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x));
    if (chosen !== null && chosen >= first && chosen <= last) picture.append(svg("line", { x1: atX(chosen), x2: atX(chosen), y1: top, y2: height - bottom, stroke: "var(--soft)", "stroke-dasharray": "2 3" }));
    for (const level of levels) picture.append(svg("line", { x1: left, x2: width - right, y1: atY(level.y), y2: atY(level.y), stroke: level.colour, "stroke-dasharray": "6 4", "stroke-width": 1.3 }));
    const frame = svg("svg", { x: 0, y: 0, width, height: height - bottom }); // cuts lines off that leave the plot
    picture.append(frame);
    for (const line of lines) frame.append(svg("polyline", { points: line.points.map((p) => `${atX(p.x)},${freely(p.y)}`).join(" "), fill: "none", stroke: line.colour, "stroke-width": 1.8, "stroke-dasharray": line.dash || "" }));
    const beyond = (p) => p.y > high || p.y < low, seats = new Map(); // marks at the edge stand side by side
    for (const p of points.filter(beyond)) {
      let at = atX(p.x);
      while ([...seats.values()].some((other) => Math.abs(other - at) < 11)) at -= 11;
      seats.set(p, at);
    }
    const seat = (p) => [seats.get(p) ?? atX(p.x), atY(p.y)];
    const taken = points.map(seat).map(([px, py]) => [px - 5, py - 5, px + 5, py + 5]);
    const bars = [];
    for (const p of points) {
      const [px, py] = seat(p), bar = { stroke: p.colour, "stroke-opacity": .55, "stroke-width": 1.3 };
      const outside = p.y > high;
      if (!outside && p.low !== null && p.low !== undefined) bars.push([px, atY(p.low), px, atY(p.high), bar]);
      if (!outside && p.left !== null && p.left !== undefined) bars.push([atX(p.left), py, atX(p.right), py, bar]);
      const dot = svg("path", { d: outside ? SHAPES[2] : p.shape, transform: `translate(${px} ${py})`, fill: p.hollow ? "var(--back)" : p.colour, stroke: p.colour });
      dot.append(svg("title", {}, p.about));
      const link = p.href ? svg("a", { href: p.href }) : null;
      if (link) link.append(dot);
      picture.append(link || dot);
    }
    for (const [x1, y1, x2, y2, bar] of bars) frame.append(svg("line", { ...bar, x1, y1, x2, y2 }));
    const barred = (s) => bars.some(([ax, ay, bx, by]) => ax < s[2] && bx > s[0] && Math.min(ay, by) < s[3] - 2 && Math.max(ay, by) > s[1] + 2);
    const crossed = (s) => barred(s) || levels.some((l) => atY(l.y) > s[1] + 2 && atY(l.y) < s[3] - 2) || lines.some((line) => line.points.slice(1).some((end, i) => {
      const [ax, ay, bx, by] = [atX(line.points[i].x), freely(line.points[i].y), atX(end.x), freely(end.y)];
      return Array.from({ length: 33 }, (_, k) => k / 32).some((k) => {
        const [cx, cy] = [ax + k * (bx - ax), ay + k * (by - ay)];
        return cx > s[0] && cx < s[2] && cy > s[1] + 2 && cy < s[3] - 1;
      });
    }));
    const clear = (s) => s[0] > left - 4 && s[2] < width + 2 && s[1] > 0 && s[3] < height - bottom + 4 && !taken.some((t) => s[0] < t[2] && s[2] > t[0] && s[1] < t[3] && s[3] > t[1]);
    const put = (p, tag, rows) => {
      const [px, py] = seat(p), wide = tag.length * (p.bold ? 6.8 : 6.1) + 3;
      const near = [[8, -3], [8, 12], [-8 - wide, -3], [-8 - wide, 12], [-wide / 2, -9], [-wide / 2, 19], [8, -16], [-8 - wide, -16], [8, 25], [-8 - wide, 25]];
      const open = [...near, ...rows].map(([dx, dy]) => [px + (dx ?? -wide / 2), py + dy - 10, px + (dx ?? -wide / 2) + wide, py + dy + 2]).filter(clear);
      const free = open.find((s) => !crossed(s)) || open[0];
      if (!free) return false; // its title says it
      taken.push(free);
      picture.append(svg("text", { class: "tag", x: free[0], y: free[3] - 2, style: `fill:${p.colour}${p.bold ? ";font-weight:600" : ""}` }, tag));
      return true;
    };
    const below = [19, 32, 45, 58, 71].map((dy) => [null, dy]); // rows for what stands crowded at the edge
    for (const p of points.filter(beyond)) (p.outside && put(p, p.outside, below)) || put(p, `${+p.y.toPrecision(2)}`, below);
    for (const level of levels.filter((l) => l.label)) { // above or below its line, as far right as is free
      const wide = level.label.length * 6.1 + 3, y = atY(level.y), spots = [];
      for (const off of [0, 6, 13]) for (let x = width - right; x > left + wide; x -= 8) spots.push([x - wide, y - 14 - off, x, y - 2 - off], [x - wide, y + 2 + off, x, y + 14 + off]);
      const open = spots.filter(clear), free = open.find((s) => !barred(s)) || open[0];
      if (!free) continue;
      taken.push(free);
      picture.append(svg("text", { class: "soft tag", x: free[0], y: free[3] - 3 }, level.label));
    }
    for (const p of points.filter((p) => p.tag && !beyond(p)).sort((a, b) => !!b.bold - !!a.bold)) put(p, p.tag, []);
    place.replaceChildren(picture);
  };
  let before = -1;
  new ResizeObserver(() => { if (place.clientWidth && place.clientWidth !== before) { before = place.clientWidth; draw(); } }).observe(place);
}

function legend(entries) {
  const list = el("ul", { className: "legend" });
  for (const { label, colour, shape, dash, hollow } of entries) {
    const sample = svg("svg", { viewBox: "-9 -7 18 14", "aria-hidden": true });
    if (dash !== undefined) sample.append(svg("line", { x1: -9, x2: 9, y1: 0, y2: 0, stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }));
    if (shape) sample.append(svg("path", { d: shape, fill: hollow ? "var(--back)" : colour, stroke: colour }));
    list.append(el("li", {}, sample, " " + label));
  }
  return list;
}

function figurePlot(plot) {
  const points = [], lines = [], levels = [], entries = [];
  const own = plot.series.filter((s) => ["curve", "scatter", "mark"].includes(s.kind)).flatMap((s) => s.points.map((p) => p.y.value)).filter((v) => v !== null);
  const span = Math.max(...own) - Math.min(...own) || Math.abs(own[0]) || 1;
  const far = (v) => v > Math.max(...own) + span || v < Math.min(...own) - span; // a paper's scale would flatten ours
  let marks = 0, papers = 0;
  for (const one of plot.series) {
    const kept = one.points.filter((p) => p.y.value !== null);
    const paper = one.kind === "published", single = one.kind === "level" || one.kind === "mark";
    const colour = paper ? "var(--soft)" : single ? "var(--ink)" : `var(--c${one.style % 5})`;
    if (one.kind === "level") {
      if (kept.length) levels.push({ y: kept[0].y.value, colour });
      entries.push({ label: one.label, colour, dash: "6 4" });
      continue;
    }
    const shape = single ? LEVELS[marks++ % LEVELS.length] : paper ? SHAPES[papers++ % 5] : SHAPES[one.style % 5];
    const made = kept.map((p) => ({ x: p.x, y: p.y.value, low: p.y.low, high: p.y.high, colour, shape, hollow: paper,
      tag: !plot.sweep.length && !paper ? p.tag : "", aside: paper && far(p.y.value),
      about: `${one.label}${p.tag ? ", " + p.tag : ""}: ${+p.y.value.toPrecision(4)}${p.y.low === null ? "" : ` [${+p.y.low.toPrecision(4)}, ${+p.y.high.toPrecision(4)}]`}` }));
    if (one.kind === "curve") made.sort((a, b) => a.x - b.x);
    points.push(...made);
    const joined = made.filter((p) => !p.aside);
    if (one.kind === "curve" || (paper && joined.length > 1)) lines.push({ points: joined, colour, dash: paper ? "4 3" : "" });
    entries.push({ label: one.label, colour, shape, hollow: paper, ...(one.kind === "curve" ? { dash: "" } : {}) });
  }
  if (plot.ceiling !== null) {
    lines.push({ points: [Math.min(...plot.sweep), Math.max(...plot.sweep)].map((v) => ({ x: v, y: v + 1 })), colour: "var(--soft)", dash: "2 3" });
    entries.push({ label: plot.ceiling, colour: "var(--soft)", dash: "2 3" });
  }
  const place = el("div"), box = el("div", {}, el("h4", { textContent: plot.title }), legend(entries), el("small", { textContent: plot.y_label }), place);
  if (points.length) chart(place, { points, lines, levels, x: plot.x_label, sweep: plot.sweep, chosen: plot.chosen, alt: plot.title });
  return box;
}
