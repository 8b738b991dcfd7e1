"use strict";
// Systems side by side: one transport, switched at the same place; waves, spectrograms, token strips.

const KINDS = { f: "first", a: "accepted", r: "residual", b: "bonus", u: "unverified" };

function words(clip) {
  const line = el("p", { className: "heard" });
  if (clip.heard === null) return line;
  for (const [kind, word] of clip.heard) {
    const shown = el("span", { textContent: word, className: kind });
    if (kind !== "equal") shown.title = { substitute: "another word", insert: "said too much", delete: "not heard" }[kind];
    line.append(shown, " ");
  }
  return line;
}

function errorText(clip) { return clip.errors === null ? "" : `${clip.errors} word error${clip.errors === 1 ? "" : "s"}`; }

async function samples(uri) {
  const bytes = Uint8Array.from(atob(uri.slice(uri.indexOf(",") + 1)), (c) => c.charCodeAt(0));
  const sound = await new OfflineAudioContext(1, 1, 16000).decodeAudioData(bytes.buffer);
  return sound.getChannelData(0);
}

function sized(canvas) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio; canvas.height = canvas.clientHeight * ratio;
  return canvas.getContext("2d");
}

function colour(canvas, name) { return getComputedStyle(canvas).getPropertyValue(name); }

function drawWave(canvas, wave) {
  const pen = sized(canvas), { width, height } = canvas, peak = wave.reduce((m, v) => Math.max(m, Math.abs(v)), 1e-4);
  pen.fillStyle = colour(canvas, "--soft");
  for (let x = 0; x < width; x++) {
    let top = 0;
    for (let i = Math.floor(x * wave.length / width); i < (x + 1) * wave.length / width; i++) top = Math.max(top, Math.abs(wave[i] || 0));
    const tall = Math.max(1, top / peak * height * .94);
    pen.fillRect(x, (height - tall) / 2, 1, tall);
  }
}

function drawSpectrogram(canvas, wave) {
  const size = 512, half = size / 2, hop = Math.max(80, Math.floor(wave.length / 700)), columns = Math.max(1, Math.floor((wave.length - size) / hop));
  const image = new ImageData(columns, half), power = new Float32Array(columns * half);
  for (let c = 0; c < columns; c++) {
    const re = new Float32Array(size), im = new Float32Array(size);
    for (let i = 0; i < size; i++) re[i] = wave[c * hop + i] * (.5 - .5 * Math.cos(2 * Math.PI * i / size));
    fft(re, im);
    for (let k = 0; k < half; k++) power[c * half + k] = 10 * Math.log10(re[k] ** 2 + im[k] ** 2 + 1e-9);
  }
  const loudest = power.reduce((m, v) => Math.max(m, v), -90);
  power.forEach((value, i) => {
    const level = Math.max(0, Math.min(1, (value - loudest + 70) / 70)), c = Math.floor(i / half), k = i % half;
    image.data.set([255 * level ** .8, 255 * level ** 2, 90 + 120 * Math.sin(level * 3), 255], 4 * ((half - 1 - k) * columns + c));
  });
  const small = el("canvas", { width: columns, height: half });
  small.getContext("2d").putImageData(image, 0, 0);
  sized(canvas).drawImage(small, 0, 0, canvas.width, canvas.height);
}

function fft(re, im) {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) { [re[i], re[j]] = [re[j], re[i]]; [im[i], im[j]] = [im[j], im[i]]; }
  }
  for (let size = 2; size <= n; size *= 2) {
    for (let i = 0; i < n; i += size) {
      for (let k = 0; k < size / 2; k++) {
        const angle = -2 * Math.PI * k / size, c = Math.cos(angle), s = Math.sin(angle), a = i + k, b = a + size / 2;
        const x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x; im[b] = im[a] - y; re[a] += x; im[a] += y;
      }
    }
  }
}

function drawStrip(canvas, strip) {
  const tokens = strip.match(/[farbu]\d*/g) || [], pen = sized(canvas), step = canvas.width / tokens.length;
  tokens.forEach((token, i) => {
    pen.fillStyle = colour(canvas, `--${token[0]}`);
    pen.fillRect(i * step, 0, Math.max(1, step - (step > 3 ? 1 : 0)), canvas.height);
  });
  canvas.title = `${tokens.length} tokens: ` + Object.entries(KINDS).map(([k, name]) => [tokens.filter((t) => t[0] === k).length, name]).filter(([n]) => n).map(([n, name]) => `${n} ${name}`).join(", ");
}

function listening(sections) {
  const heard = sections.filter((s) => s.utterances.some((u) => u.clips.some((c) => c.audio)));
  if (!heard.length) return null;
  const paper = el("select", { ariaLabel: "Method" }), which = el("select", { ariaLabel: "Utterance" });
  const play = el("button", { className: "play", textContent: "▶ Play", type: "button" });
  const more = el("input", { type: "checkbox" }), spectrogram = el("input", { type: "checkbox" });
  const clips = el("div"), key = el("small", { className: "key" }), why = el("p", { className: "soft" }), prompt = el("button", { type: "button", textContent: "voice prompt" });
  let players = [], on = 0;
  heard.forEach((s, i) => paper.append(el("option", { value: i, textContent: s.title.split(":")[0] })));
  const section = () => heard[paper.value || 0], playing = () => players.some((p) => !p.sound.paused);
  const stop = () => players.forEach((p) => p.sound.pause());

  function choose(next) {
    const before = players[on], going = playing();
    const share = before && before.sound.duration ? before.sound.currentTime / before.sound.duration : 0;
    stop();
    on = next;
    players.forEach((p, i) => { p.box.dataset.on = i === on; p.button.ariaPressed = i === on; });
    seek(share);
    if (going) players[on].sound.play();
  }

  function seek(share) {
    const { sound } = players[on], set = () => { sound.currentTime = Math.min(share, .999) * sound.duration; };
    if (sound.readyState) set(); else sound.addEventListener("loadedmetadata", set, { once: true });
  }

  function fill() {
    which.replaceChildren();
    section().utterances.forEach((u, i) => { if (u.why) which.append(el("option", { value: i, textContent: `“${u.text}”` })); });
    show();
  }

  function show() {
    stop();
    const one = section().utterances[which.value], ours = one.clips.filter((c) => c.audio);
    const first = section().contrast.map((label) => ours.find((c) => c.system === label)).filter(Boolean);
    const ordered = [...first, ...ours.filter((c) => !first.includes(c))];
    why.textContent = `Speaker ${one.speaker || "unknown"}; ${one.why} (${one.id}).`;
    prompt.hidden = !one.prompt;
    prompt.onclick = () => { stop(); new Audio(one.prompt).play(); };
    clips.replaceChildren();
    players = ordered.slice(0, more.checked ? 9 : 3).map((clip, i) => {
      const sound = new Audio(clip.audio), canvas = el("canvas", { className: spectrogram.checked ? "tall" : "" });
      const button = el("button", { type: "button" }, el("kbd", { textContent: i + 1 }), clip.system, el("small", { textContent: "  " + errorText(clip) }));
      const cursor = el("i"), box = el("div", { className: "clip" }, button, el("div", { className: "wave" }, canvas, cursor));
      box.dataset.on = false;
      button.onclick = () => choose(i);
      canvas.onclick = (event) => { choose(i); seek(event.offsetX / canvas.clientWidth); players[i].sound.play(); };
      if (clip.strip) box.append(el("canvas", { className: "strip" }));
      box.append(words(clip));
      clips.append(box);
      sound.onplay = sound.onpause = sound.onended = () => { play.textContent = playing() ? "❚❚ Pause" : "▶ Play"; };
      const player = { sound, box, button, canvas, clip, cursor };
      samples(clip.audio).then((wave) => { player.wave = wave; paint(player); });
      return player;
    });
    explain(players.map(({ clip }) => clip.strip || "").join(""));
    choose(0);
  }

  function explain(strips) {
    const used = Object.keys(KINDS).filter((kind) => strips.includes(kind));
    key.hidden = !used.length;
    key.replaceChildren("The strip under a wave is its tokens: ", ...used.map((kind) => {
      const dot = el("i");
      dot.style.background = `var(--${kind})`;
      return el("span", {}, dot, KINDS[kind]);
    }));
  }

  function paint(player) {
    if (!player.wave || !player.canvas.clientWidth) return;
    (spectrogram.checked ? drawSpectrogram : drawWave)(player.canvas, player.wave);
    const strip = player.box.querySelector(".strip");
    if (strip) drawStrip(strip, player.clip.strip);
  }

  function follow() {
    const player = players[on];
    if (player && player.sound.duration) player.cursor.style.left = `${100 * player.sound.currentTime / player.sound.duration}%`;
    requestAnimationFrame(follow);
  }

  play.onclick = () => { if (playing()) stop(); else players[on].sound.play(); };
  paper.onchange = fill;
  which.onchange = more.onchange = spectrogram.onchange = show;
  const panel = el("section", { className: "listen", id: "listen", ariaLabel: "Listen" }, el("h2", { textContent: "Listen" }),
    el("div", { className: "bar" }, play, paper, which, prompt),
    clips, why, key,
    el("div", { className: "bar" }, el("label", {}, more, " all systems"), el("label", {}, spectrogram, " spectrograms"), el("small", { textContent: "Keys 1 to 9 switch at the same place." })));
  document.addEventListener("keydown", (event) => {
    const number = Number(event.key);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.altKey || event.metaKey) return;
    if (number >= 1 && number <= players.length) choose(number - 1);
  });
  new ResizeObserver(() => players.forEach(paint)).observe(clips);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => players.forEach(paint));
  fill();
  requestAnimationFrame(follow);
  return panel;
}
