/* The microphone: int16 samples at the rate of a network, or one line that says why there are none. */
import { Resampler } from "./resampler.js";

const PATIENCE = 2000; // milliseconds until sound must have come
// As it is: what improves speech for people changes what the network hears.
const PLAIN = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const REASONS = {
  NotAllowedError: "This page may not use the microphone. Allow it beside the page's address and press the button again.",
  NotFoundError: "No microphone was found. Connect one and press the button again, or play a stored recording.",
  NotReadableError: "The microphone cannot be read. Close other programs that use it and press the button again.",
};
const HELD_BACK = "The browser holds the sound back. Press the button again to go on.";

/** Runs where the browser handles sound: passes on what comes, in blocks of 1024 values. */
const TAP = `registerProcessor("tap", class extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(1024);
    this.filled = 0;
  }
  process([[channel]]) {
    if (!channel) return true;
    this.block.set(channel, this.filled);
    this.filled += channel.length;
    if (this.filled < this.block.length) return true;
    this.port.postMessage(this.block);
    this.filled = 0;
    return true;
  }
});`;

/** Return how to open this page where browsers give pages the microphone. */
function howToServe() {
  const file = location.pathname.split("/").pop();
  return `run "python -m http.server" in the page's folder and open http://localhost:8000/${file}`;
}

const notHere = () => `This browser gives this page no microphone: ${howToServe()}`;

/** Return why there is no microphone; a browser may refuse it to a page from the disk without asking. */
function reason({ name, message }) {
  const line = REASONS[name] ?? `The microphone does not start: ${message}`;
  const unasked = name === "NotAllowedError" && location.protocol === "file:";
  return unasked ? `${line} If the browser does not ask: ${howToServe()}` : line;
}

/** Load TAP out of its own address: a page from the disk can load neither files nor blobs. */
function loadTap(context) {
  const address = `data:text/javascript,${encodeURIComponent(TAP)}`;
  return context.audioWorklet.addModule(address).then(() => true, () => false);
}

export class Microphone {
  /** `push(samples)` gets int16 samples at `rate`; `say(line)` is told what is wrong, and "" once sound comes. */
  constructor(rate, push, say) {
    Object.assign(this, { rate, push, say, context: null, stream: null });
  }

  get isOn() {
    return this.context !== null;
  }

  /** Ask for the microphone and listen. */
  async start() {
    this.stop();
    if (!navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) return this.fail(notHere());
    const context = new AudioContext();
    this.context = context;
    const asked = navigator.mediaDevices.getUserMedia({ audio: PLAIN }).catch((error) => ({ error }));
    const [isLoaded, stream] = await Promise.all([loadTap(context), asked]);
    const isStopped = this.context !== context;
    if (stream.error) return isStopped ? undefined : this.fail(reason(stream.error));
    if (isStopped) return release(stream);
    this.stream = stream;
    return isLoaded ? this.connect() : this.fail(notHere());
  }

  connect() {
    const { context, stream } = this;
    const [tap, resampler] = [new AudioWorkletNode(context, "tap"), new Resampler(context.sampleRate, this.rate)];
    context.createMediaStreamSource(stream).connect(tap).connect(context.destination); // nothing comes out of it
    this.loud = false;
    tap.port.onmessage = ({ data }) => this.take(resampler.push(data));
    stream.getAudioTracks()[0].onended = () => this.fail("The microphone was disconnected.");
    context.onstatechange = () => context.state !== "running" && this.fail(HELD_BACK);
    this.timer = setTimeout(() => {
      if (context.state !== "running") this.fail(HELD_BACK);
      else if (!this.loud) this.say("The microphone gives no sound at all. Is it muted?");
    }, PATIENCE);
    context.resume();
  }

  take(samples) {
    if (!this.isOn) return;
    if (!this.loud && samples.some((sample) => sample !== 0)) {
      this.loud = true;
      this.say("");
    }
    this.push(samples);
  }

  /** Stop, and say why. */
  fail(line) {
    this.stop();
    this.say(line);
  }

  stop() {
    clearTimeout(this.timer);
    const { context, stream } = this;
    Object.assign(this, { context: null, stream: null });
    if (stream) release(stream);
    if (context) context.onstatechange = null;
    context?.close();
  }
}

function release(stream) {
  stream.getTracks().forEach((track) => track.stop());
}
