/* A running network: it reads a sequence step by step, and the parts of the widget show inputs, state and answer. */
import { Count, answers, changed, shares } from "./lab.js";
import { Listening } from "./listening.js";
import { Pad } from "./pad.js";
import { cellAt, drawSequence, drawShares, drawSigns, drawUnits, ends, gridShape, sequencePicture } from "./pictures.js";
import { Sensor, hasSensor } from "./sensor.js";
import { Word } from "./word.js";

const FRAME = 10; // milliseconds of steps in a frame at full speed
const { format: number } = new Intl.NumberFormat("en");
const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;

export class Widget {
  /** `stored` are the sequences to play and to evaluate, each {inputs, labels}. */
  constructor(root, data, stored) {
    Object.assign(this, { root, data, stored, peers: [], flips: [], layer: 0, shown: 0 });
    this.part = Object.fromEntries(
      [...root.querySelectorAll("[data-part]")].map((element) => [element.dataset.part, element]),
    );
    this.names = data.classes;
    this.bits = data.model.weightBits;
    this.trained = changed(data.model, this.bits, []);
    this.network = this.trained;
    this.sequence = [];
    this.addBars();
    this.connect();
    if (data.pad) {
      this.pad = new Pad(this.part.pad, data.pad, (levels) => this.together((widget) => widget.readDrawing(levels)));
    }
    if (data.word) this.word = new Word(data.word, this.part, (inputs) => this.read(inputs, null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    addEventListener("resize", () => this.redraw());
    if (data.sensor && hasSensor()) this.offerSensor();
    if (data.listening) this.listening = new Listening(data.listening, this);
    if (this.word) this.word.start();
    else this.readStored(data.together ? 0 : this.firstRight);
    this.count();
  }

  /** Connect every control with its action. */
  connect() {
    const { part } = this;
    const on = (name, event, act) => part[name]?.addEventListener(event, act);
    on("play", "click", () => this.play());
    on("step", "click", () => this.together((widget) => widget.stepOnce()));
    on("speed", "change", () => this.together((widget) => (widget.part.speed.value = part.speed.value)));
    on("next", "click", () => this.goTo(this.shown + 1));
    on("previous", "click", () => this.goTo(this.shown - 1));
    on("mistake", "click", () => this.goTo(this.nextMistake));
    on("clear", "click", () => {
      this.together((widget) => widget.clear());
      part.pad.focus();
    });
    on("bits", "change", () => this.change());
    on("layer", "change", () => this.showLayer(Number(part.layer.value)));
    on("flip", "click", () => this.flip(Number(part.unit.value)));
    on("signs", "click", (event) => {
      this.flip(cellAt(part.signs, event, ...gridShape(this.signs.length)));
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

  /** The first stored sequence with a correct answer; mistakes have a separate button. */
  get firstRight() {
    const right = ({ inputs, labels }) => answers(this.network, inputs).every((predicted, t) => predicted === labels[t]);
    return Math.max(0, this.stored.findIndex(right));
  }

  /** The next stored sequence with a wrong answer; undefined if there is none. */
  get nextMistake() {
    const { wrong } = this.counting;
    return wrong.find((index) => index > this.shown) ?? wrong[0];
  }

  get isChanged() {
    return this.flips.length > 0 || this.bits !== this.data.model.weightBits;
  }

  /** Apply an action to this widget and to all that read the same drawing. */
  together(act) {
    [this, ...this.peers].forEach(act);
  }

  play() {
    const [again, stop] = [this.done, this.playing];
    this.together((widget) => (again ? widget.restart() : widget.pause(stop)));
  }

  /** Read one of the stored sequences; indices wrap around. */
  goTo(index) {
    this.together((widget) => widget.readStored((index + this.stored.length) % this.stored.length));
  }

  readStored(index) {
    const { inputs, labels } = this.stored[index];
    this.shown = index;
    if (this.pad) {
      const levels = new Array(inputs.length).fill(0);
      const { codes } = this.data.pad;
      inputs.forEach(([code], t) => (levels[this.pixel(t)] = Math.max(0, codes.indexOf(code))));
      this.pad.set(levels);
    }
    this.part.stored.textContent = `example ${index + 1} of ${this.stored.length}`;
    this.read(inputs, labels);
  }

  /** Return the pixel read at step t. */
  pixel(t) {
    return this.data.pad.order ? this.data.pad.order[t] : t;
  }

  readDrawing(levels) {
    if (levels !== this.pad.levels) this.pad.set(levels);
    this.part.stored.textContent = "drawn";
    this.read(levels.map((_, t) => [this.data.pad.codes[levels[this.pixel(t)]]]), null);
  }

  clear() {
    this.pad.clear();
    this.part.stored.textContent = "";
    this.read([], null);
  }

  offerSensor() {
    const [push, fail] = [(values) => this.readMoment(values), (reason) => (this.part.answer.textContent = reason)];
    this.sensor = new Sensor(this.data.sensor, push, fail);
    this.part.sensor.hidden = false;
    this.part.sensor.addEventListener("click", () => {
      this.part.stored.textContent = "from the sensor";
      this.read([], null);
      this.sensor.start();
    });
  }

  /** Read a live step; when a window is full, show its answer and begin the next one. */
  readMoment(values) {
    const { steps } = this.data.stored;
    if (this.step === steps) this.begin([], null);
    this.sequence.push(this.network.encodeValues(values));
    this.picture = null;
    this.advance();
    this.show();
    if (this.step === steps) this.finish();
  }

  /** Read a sequence from its start, `pace` steps per second; labels are its classes, null if unknown. */
  read(inputs, labels, pace = Math.max(16, inputs.length / 4)) {
    this.sensor?.stop();
    this.listening?.stop();
    this.begin(inputs, labels);
    this.pace = pace;
    this.part.answer.textContent = "";
    this.pause(false);
    if (!inputs.length) this.show();
  }

  begin(inputs, labels) {
    const state = this.network.init();
    const logits = this.network.read(state);
    Object.assign(this, { sequence: inputs, labels, state, logits, step: 0, largest: 1, predicted: [], history: [] });
    this.forget();
  }

  /** Redraw the parts that are drawn once per sequence. */
  forget() {
    Object.assign(this, { picture: null, painted: 0 });
  }

  redraw() {
    this.forget();
    this.show();
  }

  restart() {
    if (this.listening && !this.sequence.length) this.readStored(this.shown); // sound from the microphone is not stored
    else this.read(this.sequence, this.labels, this.pace);
  }

  pause(stop) {
    cancelAnimationFrame(this.waiting);
    this.playing = !stop && !this.done;
    this.started = null;
    if (this.playing) this.waiting = requestAnimationFrame((now) => this.frame(now));
    this.part.play.textContent = this.playing ? "Pause" : this.done ? "Read again" : "Continue";
  }

  stepOnce() {
    if (!this.sequence.length) return;
    if (this.done) this.restart();
    this.pause(true);
    this.advance();
    this.show();
    if (this.done) this.finish();
  }

  /** Read as many steps as the speed requires, then show them. */
  frame(now) {
    this.started ??= { now, step: this.step };
    const speed = this.part.speed.value;
    const rate = speed === "full" ? Infinity : speed === "slow" ? 8 : this.pace;
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
    if (this.network.everyOutput || this.done) this.predicted.push(this.network.classify(this.logits));
  }

  finish() {
    this.pause(true);
    const answer = this.describe(this.predicted);
    const truth = this.labels && !this.network.everyOutput ? ` The correct answer is: ${this.names[this.labels[0]]}.` : "";
    const before = this.isChanged ? ` As trained: ${this.describe(answers(this.trained, this.sequence))}.` : "";
    const sure = this.network.everyOutput ? "" : `, ${Math.round(100 * this.history.at(-1)[this.predicted.at(-1)])} % sure`;
    this.part.answer.textContent = `The network says: ${answer}${sure}.${truth}${before}`;
  }

  /** Describe predictions as text: the word that they spell, the number of correct ones, or the class. */
  describe(predicted) {
    if (this.word) return this.word.spelled(predicted);
    if (!this.network.everyOutput) return this.names[predicted.at(-1)];
    return `${predicted.filter((each, t) => each === this.labels[t]).length} of ${predicted.length} steps correct`;
  }

  /** Evaluate the stored sequences again with the present network. */
  count() {
    this.counting?.stop();
    this.counting = new Count(this.network, this.stored, this.names.length, (count) => this.showCount(count));
  }

  change() {
    this.bits = Number(this.part.bits?.value ?? this.bits);
    this.network = changed(this.data.model, this.bits, this.flips);
    if (this.listening?.hearing) this.listening.hearing.use(this.network);
    else this.restart();
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
    const { hearing } = this.listening ?? {};
    if (hearing) this.listening.show();
    this.showBars();
    this.showState();
    if (!hearing) this.showSequence();
  }

  showSequence() {
    drawShares(this.part.history, this.history, Math.max(1, this.sequence.length), this.names.length, this.painted);
    this.painted = this.history.length;
    if (this.pad) this.pad.show((this.pad.reading = this.done ? -1 : this.pixel(this.step)));
    else if (this.part.sequence && this.sequence.length) {
      this.picture ??= sequencePicture(this.part.sequence, this.sequence, ends(this.sequence));
      drawSequence(this.part.sequence, this.picture, this.step / this.sequence.length);
    }
    this.word?.show(this.step, this.predicted);
    const decided = this.step > 0 && !this.done && !this.network.everyOutput;
    const soFar = decided ? `, so far: ${this.names[this.network.classify(this.logits)]}` : "";
    this.part.progress.textContent = `step ${number(this.step)} of ${number(this.sequence.length)}${soFar}`;
  }

  showLayer(layer) {
    this.layer = layer;
    this.part.unit.max = this.signs.length - 1;
    this.show();
  }

  showBars() {
    const most = this.logits.reduce((largest, logit) => Math.max(largest, Math.abs(logit)), 1);
    const best = this.network.classify(this.logits) - Number(this.logits.length === 1); // a single logit belongs to class 1
    this.bars.forEach(({ line, bar, value }, k) => {
      bar.style.transform = `scaleX(${this.logits[k] / most})`; // negative logits extend to the left
      line.classList.toggle("best", k === best && this.history.length > 0);
      value.textContent = number(this.logits[k]);
    });
  }

  showState() {
    const h = this.state.h[this.layer];
    this.largest = h.reduce((most, code) => Math.max(most, Math.abs(code)), this.largest);
    drawUnits(this.part.state, h, this.largest);
    if (this.part.shares) drawUnits(this.part.shares, this.network.shares(this.state), 1);
    drawSigns(this.part.signs, this.signs, this.trained.layers[this.layer].signs);
    this.part.flipped.textContent = this.flips.length ? `${this.flips.length} flipped` : "as trained";
  }

  showCount(count) {
    const share = count.right / count.asked;
    if (!this.isChanged) this.before = share;
    const before = this.isChanged && this.before !== undefined ? `, as trained ${percent(this.before)}` : "";
    this.part.accuracy.textContent = `${percent(share)}${count.done ? before : ", counting"}`;
    this.part.meter.value = share;
    if (this.part.mistake) this.part.mistake.disabled = !count.wrong.length;
    if (count.done) this.part.pace.textContent = `${((1e6 * count.seconds) / count.steps).toFixed(1)} µs per step`;
    this.part.confusion?.querySelectorAll("td").forEach((cell, i) => {
      const [label, predicted] = [Math.floor(i / this.names.length), i % this.names.length];
      const times = count.counts[predicted][label];
      cell.textContent = times ? number(times) : "";
      cell.className = times ? (predicted === label ? "right" : "wrong") : "";
    });
  }
}
