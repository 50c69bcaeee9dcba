/* The part of a widget that listens: to the microphone, and to recordings. */
import { FrontEnd } from "./front_end.js";
import { Hearing } from "./hearing.js";
import { Microphone } from "./microphone.js";
import { drawSequence, drawShares, ends, sequencePicture } from "./pictures.js";
import { inflated } from "./stored.js";

const LISTED = 12; // most words in the list
const START = 300; // milliseconds that a browser may take to start playing

const padded = (list, length, blank) => [...new Array(length - list.length).fill(blank), ...list];

export class Listening {
  constructor(data, widget) {
    Object.assign(this, { data, widget, hearing: null, heard: [], drawing: null });
    this.range = ends(widget.stored.flatMap(({ inputs }) => inputs));
    this.microphone = new Microphone(data.rate, (samples) => this.take(samples), (line) => this.notify(line));
    widget.part.listen.addEventListener("click", () => (this.microphone.isOn ? this.stop() : this.start()));
    widget.root.querySelectorAll("[data-clip]").forEach((button) => {
      button.addEventListener("click", () => this.play(data.clips[Number(button.dataset.clip)]));
    });
  }

  notify(line) {
    this.widget.part.notice.textContent = line;
    this.showButton();
    if (this.microphone.isOn) return;
    this.hearing = null;
    this.letControl(true);
  }

  showButton() {
    this.widget.part.listen.textContent = this.microphone.isOn ? "Stop listening" : "Listen with the microphone";
  }

  /** Enable the reader's controls, or disable them: live sound sets its own pace. */
  letControl(may) {
    for (const name of ["play", "step", "speed"]) this.widget.part[name].disabled = !may;
  }

  start() {
    this.notify("");
    this.microphone.start();
    this.showButton();
  }

  stop() {
    this.microphone.stop();
    this.notify("");
  }

  /** Take the microphone's samples; the first ones end the sequence that the widget was reading. */
  take(samples) {
    if (!this.hearing) this.begin();
    this.hearing.push(samples);
    this.drawing ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.drawing = null;
    if (this.hearing) this.widget.show();
  }

  begin() {
    const { widget } = this;
    widget.begin([], null);
    widget.pause(true);
    widget.part.stored.textContent = "from the microphone";
    widget.part.answer.textContent = "Say a word.";
    widget.part.heard.textContent = "";
    this.letControl(false);
    this.heard = [];
    this.hearing = new Hearing(this.data, widget.network, (word) => this.hear(widget.names[word]));
  }

  hear(word) {
    const { answer, heard } = this.widget.part;
    answer.textContent = `Heard: ${word}`;
    heard.textContent = this.heard.length ? `before that: ${this.heard.join(", ")}` : "";
    this.heard = [word, ...this.heard].slice(0, LISTED);
  }

  /** Show the last seconds, the newest at the right. */
  show() {
    const { widget, hearing } = this;
    const { inputs, answers, logits, window } = hearing;
    const [frames, windows] = hearing.most;
    Object.assign(widget, { logits, state: window.oldest, history: answers });
    const { sequence, history, progress } = widget.part;
    const blank = new Array(this.data.frontEnd.bands).fill(this.range[0]);
    drawSequence(sequence, sequencePicture(sequence, padded(inputs, frames, blank), this.range), 1);
    const none = widget.names.map(() => 0);
    drawShares(history, padded(answers, windows, none), windows, none.length, 0);
    const [best, share] = [widget.network.classify(logits), Math.max(...(answers.at(-1) ?? [0]))];
    progress.textContent = answers.length ? `now: ${widget.names[best]}, ${Math.round(100 * share)} % sure` : "";
  }

  /** Read a recording from its first sample on, in real time. */
  async play({ levels, deflated, label }) {
    const { widget, data } = this;
    const samples = Int16Array.from(await inflated(deflated), (index) => levels[index]);
    const frontEnd = new FrontEnd(data.frontEnd);
    const frames = Array.from(samples, (sample) => frontEnd.push(sample)).filter(Boolean);
    widget.part.stored.textContent = "a recording";
    widget.part.heard.textContent = "";
    widget.read(frames.map((codes) => widget.network.encode(codes)), [label], data.rate / data.frontEnd.hop);
    return this.sound(samples);
  }

  /** Play a recording aloud. */
  async sound(samples) {
    const context = new AudioContext();
    const buffer = context.createBuffer(1, samples.length, this.data.rate);
    buffer.getChannelData(0).set(Float32Array.from(samples, (sample) => sample / 32768));
    const source = Object.assign(context.createBufferSource(), { buffer, onended: () => context.close() });
    source.connect(context.destination);
    source.start();
    await new Promise((resolve) => setTimeout(resolve, START));
    if (context.state === "suspended") this.notify("The browser does not play the sound, but the network reads the recording.");
  }
}
