/* A network at work: it reads a sequence step by step, and every part of the widget shows what it does. */
import { unpack } from "./network.js";
import { Count, changed } from "./lab.js";
import { Pad } from "./pad.js";
import { cellAt, colour, drawSequence, gridColumns, paint } from "./pictures.js";
import { Word } from "./word.js";

const FRAME = 10; // milliseconds of steps in a frame at full speed
const number = (value) => value.toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Return exp(l_k) / sum_j exp(l_j) of real logits; a single one tells two classes apart. */
function shares(logits, scale) {
  const real = logits.length === 1 ? [0, logits[0] * scale] : Array.from(logits, (code) => code * scale);
  const most = Math.max(...real);
  const powers = real.map((value) => Math.exp(value - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** Return the stored sequences as [{inputs, labels}]. */
function storedSequences({ packed, steps, width, lengths, labels }, dense) {
  const codes = unpack(packed);
  return labels.map((label, row) => {
    const at = row * steps * width;
    const inputs = Array.from({ length: lengths ? lengths[row] : steps }, (_, t) =>
      dense ? codes.subarray(at + t * width, at + (t + 1) * width) : codes[at + t],
    );
    return { inputs, labels: [label].flat().slice(0, inputs.length) };
  });
}

export class Widget {
  constructor(root, data) {
    Object.assign(this, { root, data, peers: [], flips: [], layer: 0, shown: 0 });
    this.part = Object.fromEntries(
      [...root.querySelectorAll("[data-part]")].map((element) => [element.dataset.part, element]),
    );
    this.names = data.classes;
    this.stored = storedSequences(data.stored, data.model.inputKind === "dense");
    this.bits = data.model.weightBits;
    this.network = changed(data.model, this.bits, []);
    this.sequence = [];
    this.addBars();
    this.connect();
    if (data.pad) this.pad = new Pad(this.part.pad, data.pad, (levels) => this.readDrawing(levels));
    if (data.word) this.word = new Word(data.word, this.part, (inputs) => this.read(inputs, null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    addEventListener("resize", () => this.show());
    if (this.word) this.word.start();
    else this.readStored(0);
    this.count();
  }

  /** Connect every control with what it does. */
  connect() {
    const { part } = this;
    const on = (name, event, act) => part[name]?.addEventListener(event, act);
    on("play", "click", () => (this.done ? this.restart() : this.pause(this.playing)));
    on("step", "click", () => this.stepOnce());
    on("next", "click", () => this.readStored(this.shown + 1));
    on("previous", "click", () => this.readStored(this.shown - 1));
    on("clear", "click", () => this.clear());
    on("bits", "change", () => this.change());
    on("layer", "change", () => this.show((this.layer = Number(part.layer.value))));
    on("flip", "click", () => this.flip(Number(part.unit.value)));
    on("signs", "click", (event) => {
      const columns = gridColumns(this.signs.length);
      this.flip(cellAt(part.signs, event, columns, Math.ceil(this.signs.length / columns)));
    });
    on("restore", "click", () => this.restore());
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) part.speed.value = "full";
  }

  get signs() {
    return this.network.layers[this.layer].signs;
  }

  get done() {
    return this.step >= this.sequence.length;
  }

  /** Read one of the stored sequences. */
  readStored(index, alone = false) {
    const { stored, data } = this;
    this.shown = (index + stored.length) % stored.length;
    const { inputs, labels } = stored[this.shown];
    if (this.pad) {
      const levels = new Array(inputs.length).fill(0);
      inputs.forEach((codes, t) => (levels[this.pixel(t)] = Math.max(0, data.pad.codes.indexOf(codes[0]))));
      this.pad.set(levels);
    }
    this.read(inputs, labels);
    if (!alone) this.peers.forEach((peer) => peer.readStored(index, true));
  }

  /** Return the pixel that step t reads. */
  pixel(t) {
    return this.data.pad.order ? this.data.pad.order[t] : t;
  }

  readDrawing(levels, alone = false) {
    this.read(levels.map((_, t) => [this.data.pad.codes[levels[this.pixel(t)]]]), null);
    if (!alone) this.peers.forEach((peer) => peer.readDrawing(levels, true, peer.pad.set(levels)));
  }

  clear(alone = false) {
    this.pad.clear();
    this.read([], null);
    if (alone) return;
    this.peers.forEach((peer) => peer.clear(true));
    this.pad.canvas.focus();
  }

  /** Read a sequence from its start; labels are what it stands for, null where nobody knows. */
  read(inputs, labels) {
    this.sequence = inputs;
    this.labels = labels;
    this.restart();
  }

  restart() {
    this.state = this.network.init();
    this.step = 0;
    this.largest = 1;
    this.logits = this.network.read(this.state);
    this.said = [];
    this.history = [];
    this.part.answer.textContent = "";
    this.pause(false);
    if (!this.sequence.length) this.show();
  }

  pause(stop) {
    cancelAnimationFrame(this.waiting);
    this.playing = !stop && !this.done;
    this.started = null;
    if (this.playing) this.waiting = requestAnimationFrame((now) => this.frame(now));
    this.part.play.textContent = this.playing ? "Pause" : this.done ? "Read again" : "Go on";
  }

  stepOnce() {
    if (this.done) this.restart();
    this.pause(true);
    this.advance();
    this.show();
    if (this.done) this.finish();
  }

  /** Read as many steps as the speed asks for, then show them. */
  frame(now) {
    this.started ??= { now, step: this.step };
    const speed = this.part.speed.value;
    const rate = speed === "full" ? Infinity : speed === "slow" ? 8 : Math.max(16, this.sequence.length / 4);
    const due = this.started.step + ((now - this.started.now) / 1000) * rate;
    const limit = performance.now() + FRAME;
    while (!this.done && this.step <= due && performance.now() < limit) this.advance();
    this.show();
    if (this.done) this.finish();
    else this.waiting = requestAnimationFrame((later) => this.frame(later));
  }

  advance() {
    this.network.step(this.state, this.sequence[this.step]);
    this.step += 1;
    this.logits = this.network.read(this.state);
    this.history.push(shares(this.logits, this.network.logitScale));
    if (this.network.everyOutput || this.done) this.said.push(this.network.classify(this.logits));
  }

  finish() {
    this.pause(true);
    const { answer } = this.part;
    const last = this.said[this.said.length - 1];
    if (this.word) {
      answer.textContent = this.word.answer(this.said);
    } else if (this.network.everyOutput) {
      const right = this.said.filter((said, t) => said === this.labels[t]).length;
      answer.textContent = `${right} of ${this.said.length} steps are answered rightly.`;
    } else {
      const sure = Math.round(100 * this.history[this.history.length - 1][last]);
      const truth = this.labels ? ` It is: ${this.names[this.labels[0]]}.` : "";
      answer.textContent = `The network says: ${this.names[last]}, ${sure} % sure.${truth}`;
    }
  }

  /** Count the stored sequences anew, with the network as it is now. */
  count() {
    this.counting?.stop();
    this.counting = new Count(this.network, this.stored, this.names.length, (count) => this.showCount(count));
  }

  change() {
    this.bits = Number(this.part.bits?.value ?? this.bits);
    this.network = changed(this.data.model, this.bits, this.flips);
    this.restart();
    this.count();
  }

  flip(unit) {
    if (!Number.isInteger(unit) || unit < 0 || unit >= this.signs.length) return;
    const at = this.flips.findIndex(([layer, other]) => layer === this.layer && other === unit);
    if (at < 0) this.flips.push([this.layer, unit]);
    else this.flips.splice(at, 1);
    this.part.unit.value = unit;
    this.change();
  }

  restore() {
    this.flips = [];
    if (this.part.bits) this.part.bits.value = this.data.model.weightBits;
    this.change();
  }

  addBars() {
    const names = this.data.model.outputSize === 1 ? [this.names[1]] : this.names;
    this.bars = names.map((name) => {
      const line = document.createElement("li");
      line.innerHTML = '<span></span><span class="track"><span></span></span><span></span>';
      line.firstChild.textContent = name;
      this.part.bars.append(line);
      return { line, bar: line.children[1].firstChild, value: line.lastChild };
    });
  }

  show() {
    this.showBars();
    this.showState();
    this.showHistory();
    if (this.pad) this.pad.show((this.pad.reading = this.done ? -1 : this.pixel(this.step)));
    else if (this.sequence.length) drawSequence(this.part.sequence, this.sequence, this.step);
    const saying = this.word ? this.word.stage(this.step, this.said) : "";
    this.part.progress.textContent = `step ${number(this.step)} of ${number(this.sequence.length)}${saying}`;
  }

  showBars() {
    const most = this.logits.reduce((largest, logit) => Math.max(largest, Math.abs(logit)), 1);
    const best = this.network.classify(this.logits) - Number(this.logits.length === 1); // a lone logit is class 1's
    this.bars.forEach(({ line, bar, value }, k) => {
      const width = (50 * this.logits[k]) / most;
      Object.assign(bar.style, { left: `${50 + Math.min(0, width)}%`, width: `${Math.abs(width)}%` });
      line.classList.toggle("best", k === best && this.step > 0);
      value.textContent = number(this.logits[k]);
    });
  }

  showState() {
    const h = this.state.h[this.layer];
    const columns = gridColumns(h.length);
    const rows = Math.ceil(h.length / columns);
    const [up, down] = [colour("blue"), colour("orange")];
    this.largest = h.reduce((most, code) => Math.max(most, Math.abs(code)), this.largest);
    paint(this.part.state, columns, rows, (i) => [h[i] > 0 ? up : down, Math.abs(h[i] ?? 0) / this.largest]);
    const flipped = new Set(this.flips.filter(([layer]) => layer === this.layer).map(([, unit]) => unit));
    const [plus, minus, changed] = [colour("line"), colour("grey"), colour("orange")];
    paint(this.part.signs, columns, rows, (i) => {
      if (i >= h.length) return [plus, 0];
      return [flipped.has(i) ? changed : this.signs[i] > 0 ? plus : minus, 1];
    });
    this.part.flipped.textContent = this.flips.length ? `${this.flips.length} flipped` : "as trained";
  }

  /** Show how sure each class was after each step, time to the right. */
  showHistory() {
    const { history, names } = this;
    const columns = Math.max(1, this.sequence.length);
    const ink = colour("blue");
    paint(this.part.history, columns, names.length, (i) => [
      ink,
      history[i % columns]?.[Math.floor(i / columns)] ?? 0,
    ]);
  }

  showCount(count) {
    if (!this.flips.length && this.bits === this.data.model.weightBits) this.trained = count.right / count.asked;
    const before = this.trained === undefined ? "" : `, as trained ${percent(this.trained)}`;
    this.part.accuracy.textContent =
      `${percent(count.right / count.asked)} of ${number(count.asked)} answers are right${count.done ? before : ", counting"}`;
    if (count.done) this.part.pace.textContent = `${((1e6 * count.seconds) / count.steps).toFixed(1)} µs a step`;
    this.part.confusion?.querySelectorAll("td").forEach((cell, i) => {
      const [label, said] = [Math.floor(i / this.names.length), i % this.names.length];
      const times = count.counts[said][label];
      cell.textContent = times ? number(times) : "";
      cell.className = times ? (said === label ? "right" : "wrong") : "";
    });
  }
}
