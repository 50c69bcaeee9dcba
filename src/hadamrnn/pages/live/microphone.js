/* Read the microphone: int16 samples at the rate of a network, or one line that explains why there are none. */
import { Resampler } from "./resampler.js";

const TIMEOUT = 2000; // milliseconds without sound before the page reports it
// Raw sound: processing that improves speech for people changes the network's input.
const PLAIN = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const REASONS = {
  NotAllowedError: "This page is not allowed to use the microphone. Allow it next to the page's address and press the button again.",
  NotFoundError: "No microphone was found. Connect one and press the button again, or play a stored recording.",
  NotReadableError: "The microphone cannot be read. Close other programs that use it and press the button again.",
};
const SUSPENDED = "The browser has paused the sound. Press the button again to continue.";

/** Runs in the browser's audio thread and passes samples on, in blocks of 1024 values. */
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

/** Return instructions for opening this page in a way that lets it use the microphone. */
function howToServe() {
  const file = location.pathname.split("/").pop();
  return `run "python -m http.server" in the page's folder and open http://localhost:8000/${file}`;
}

const notHere = () => `The browser does not let this page use a microphone: ${howToServe()}`;

/** Return the reason why there is no microphone; a browser may refuse a local file without asking. */
function reason({ name, message }) {
  const line = REASONS[name] ?? `The microphone cannot be started: ${message}`;
  const unasked = name === "NotAllowedError" && location.protocol === "file:";
  return unasked ? `${line} If the browser does not ask: ${howToServe()}` : line;
}

/** Load TAP from a data URL: a page opened as a file can load neither files nor blobs. */
function loadTap(context) {
  const address = `data:text/javascript,${encodeURIComponent(TAP)}`;
  return context.audioWorklet.addModule(address).then(() => true, () => false);
}

export class Microphone {
  /** `push(samples)` gets int16 samples at `rate`; `notify(line)` gets an error, and "" once there is sound. */
  constructor(rate, push, notify) {
    Object.assign(this, { rate, push, notify, context: null, stream: null });
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
    context.createMediaStreamSource(stream).connect(tap).connect(context.destination); // its output is silent
    this.loud = false;
    tap.port.onmessage = ({ data }) => this.take(resampler.push(data));
    stream.getAudioTracks()[0].onended = () => this.fail("The microphone was disconnected.");
    context.onstatechange = () => context.state !== "running" && this.fail(SUSPENDED);
    this.timer = setTimeout(() => {
      if (context.state !== "running") this.fail(SUSPENDED);
      else if (!this.loud) this.notify("There is no sound from the microphone. Is it muted?");
    }, TIMEOUT);
    context.resume();
  }

  take(samples) {
    if (!this.isOn) return;
    if (!this.loud && samples.some((sample) => sample !== 0)) {
      this.loud = true;
      this.notify("");
    }
    this.push(samples);
  }

  /** Stop, and report the reason. */
  fail(line) {
    this.stop();
    this.notify(line);
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
