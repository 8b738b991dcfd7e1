// A rater's way through the test. Everything shown is set as text, never as HTML; every answer is kept
// in the browser before anything else happens, and sent to the server, if there is one, until it says so.
"use strict";

const TEST = window.TEST, COLLECT = window.COLLECT, STORE = "sst-listen " + TEST.id;
const RETRY = 4000;
const at = (id) => document.getElementById(id);
const FRESH = () => ({ session: identity(), rater: null, name: "", stage: "welcome", place: 0, answers: [], sent: 0 });

let state = restore();
let players = [], began = 0, sending = false;

function identity() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

function restore() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORE));
    if (kept && Array.isArray(kept.answers)) return kept;
  } catch { /* nothing kept, or nothing may be kept */ }
  return FRESH();
}

function keep() {
  try {
    localStorage.setItem(STORE, JSON.stringify(state));
  } catch {
    trouble("This browser keeps nothing: do not close the page before the end.");
  }
}

function trouble(text) { at("trouble").textContent = text; }

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function show(name) {
  for (const id of ["welcome", "trial", "done"]) at(id).hidden = id !== name;
  at("bar").hidden = name === "welcome";
  scrollTo(0, 0);
}

// Training trials stand before a rater's own; their answers are not kept.
function trials() { return TEST.raters[state.rater - 1]; }
function current() { return (state.stage === "training" ? TEST.training : trials())[state.place]; }

function render() {
  for (const one of players) one.audio.pause();
  players = [];
  if (state.stage === "welcome") return welcome();
  if (state.stage === "done") return done();
  const trial = current(), training = state.stage === "training";
  show("trial");
  at("note").textContent = training ? "Practice. " + (trial.note || "") : "";
  at("question").textContent = TEST.scale.question;
  at("text").textContent = trial.text || "";
  at("reference").replaceChildren();
  at("clips").replaceChildren();
  if (trial.reference) at("reference").append(player(trial.reference, "reference"));
  const several = trial.clips.length > 1;
  trial.clips.forEach((file, i) => {
    at("clips").append(player(file, several ? ["first", "second"][i] : "clip"));
  });
  answers();
  const total = training ? TEST.training.length : trials().length;
  at("where").textContent = (training ? "Practice " : "") + (state.place + 1) + " of " + total;
  at("progress").max = total;
  at("progress").value = state.place;
  began = performance.now();
  update();
  players[0].button.focus();
}

function player(file, label) {
  const audio = make("audio", { src: "audio/" + file, preload: "auto" });
  const one = { audio, label, heard: false, plays: 0 };
  one.button = make("button", { type: "button" }, "Play " + label);
  one.row = make("div", { className: "clip" }, one.button);
  one.button.onclick = () => toggle(one);
  audio.onplaying = () => trouble("");
  audio.onplay = () => { one.plays += 1; one.button.textContent = "Pause " + label; };
  audio.onpause = () => { one.button.textContent = "Play " + label; };
  audio.onended = () => { one.heard = true; one.row.classList.add("heard"); update(); };
  audio.onerror = () => trouble("A clip could not be loaded. Check the connection, and play it again.");
  players.push(one);
  return one.row;
}

function toggle(one) {
  for (const other of players) if (other !== one) other.audio.pause();
  if (one.audio.error) one.audio.load();
  if (one.audio.paused) one.audio.play().catch(() => {}); else one.audio.pause();
}

function answers() {
  const scale = at("scale"), words = TEST.scale.words;
  scale.replaceChildren(make("legend", {}, "Your answer"));
  for (let n = TEST.scale.least; n <= TEST.scale.most; n++) {
    const input = make("input", { type: "radio", name: "answer", value: n, onchange: update });
    const text = TEST.scale.least === 1 ? n + " – " + words[n] : words[n];
    scale.append(make("label", {}, input, text));
  }
}

function values() {
  const chosen = at("scale").querySelector("input:checked");
  return chosen ? [Number(chosen.value)] : null;
}

function update() {
  const heard = players.every((one) => one.heard);
  at("scale").disabled = !heard;
  at("next").disabled = !heard || values() === null;
  at("hint").textContent = heard ? (values() === null ? "Choose an answer." : "")
    : "Listen to " + (players.length > 1 ? "all clips" : "the clip") + " to the end first.";
}

function next() {
  if (at("next").disabled) return;
  if (state.stage === "test") {
    state.answers.push({
      trial: state.place,
      values: values(),
      seconds: Math.round(performance.now() - began) / 1000,
      plays: players.reduce((sum, one) => sum + one.plays, 0),
    });
  }
  state.place += 1;
  if (state.stage === "training" && state.place >= TEST.training.length) [state.stage, state.place] = ["test", 0];
  if (state.stage === "test" && state.place >= trials().length) state.stage = "done";
  keep();
  send();
  render();
}

function welcome() {
  show("welcome");
  at("asked").textContent = "You will hear short clips of speech. The question is: " + TEST.scale.question;
  at("number").max = TEST.raters.length;
  const linked = new URLSearchParams(location.search).get("rater");
  if (linked && !at("number").value) at("number").value = linked;
}

function begin(event) {
  event.preventDefault();
  const number = Number(at("number").value);
  if (!Number.isInteger(number) || number < 1 || number > TEST.raters.length) {
    at("wrong").textContent = "Give the number you were told, 1 to " + TEST.raters.length + ".";
    return;
  }
  at("wrong").textContent = "";
  state.rater = number;
  state.name = at("name").value.trim();
  state.stage = TEST.training.length ? "training" : "test";
  keep();
  render();
}

function done() {
  show("done");
  at("where").textContent = "All done";
  at("progress").max = at("progress").value = 1;
  report();
  at("done").querySelector("h1").focus();
}

function report() {
  const all = state.answers.length;
  at("saved").textContent = COLLECT === null
    ? "Please download your answers and send the file to whoever asked you."
    : state.sent >= all ? "All " + all + " answers have arrived. You may close this page."
      : state.sent + " of " + all + " answers have arrived; please leave this page open.";
}

function sheet(from) {
  const { rater, name, session } = state;
  return { test: TEST.id, rater, name, session, answers: state.answers.slice(from) };
}

async function send() {
  if (COLLECT === null || sending || state.sent >= state.answers.length) return;
  sending = true;
  let again = true;
  const from = state.sent, session = state.session, to = state.answers.length;
  try {
    const reply = await fetch(COLLECT, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sheet(from)),
    });
    if (reply.ok && state.session === session) {
      state.sent = to;
      keep();
      trouble("");
    } else if (!reply.ok) {
      again = reply.status >= 500;
      trouble("The server did not take your answers (" + reply.status + "). They are kept here: download them at the end.");
    }
  } catch {
    trouble("No connection: your answers are kept here and sent later.");
  }
  sending = false;
  if (state.stage === "done") report();
  if (again && state.sent < state.answers.length) setTimeout(send, RETRY);
}

function download() {
  const text = JSON.stringify(sheet(0), null, 1);
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })) });
  link.download = "answers-" + TEST.id + "-" + state.rater + "-" + state.session.slice(0, 6) + ".json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function another() {
  if (!confirm("The answers on this device will be forgotten. Have they been downloaded, or have they arrived?")) return;
  state = FRESH();
  at("number").value = at("name").value = "";
  keep();
  render();
}

function pressed(event) {
  const typing = event.target.matches("input:not([type=radio])");
  if (at("trial").hidden || typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const choices = Array.from(at("scale").querySelectorAll("input"));
  const digit = /^[1-9]$/.test(event.key) ? Number(event.key) - 1 : -1;
  if (event.key === "Enter") {
    event.preventDefault();
    next();
  } else if (event.key === " " && event.target.tagName !== "BUTTON") {
    event.preventDefault();
    toggle(players.find((one) => !one.heard) || players[players.length - 1]);
  } else if (digit >= 0 && digit < choices.length && !at("scale").disabled) {
    choices[digit].checked = true;
    update();
    choices[digit].focus();
  }
}

at("who").onsubmit = begin;
at("next").onclick = next;
at("download").onclick = download;
at("another").onclick = another;
addEventListener("keydown", pressed);
addEventListener("online", send);
keep();
render();
send();
