/* Process an endless stream of int16 samples: frames, the answers of a sliding window, and the events that they raise. */
import { Decider } from "./decision.js";
import { FrontEnd } from "./front_end.js";
import { shares } from "./lab.js";

const SHOWN = 3; // length of the history in windows

export class Hearing {
  /** `onEvent(class)` is called for each event. */
  constructor({ frontEnd, decision }, network, onEvent) {
    Object.assign(this, { size: decision.window, hop: decision.hop, onEvent, inputs: [], answers: [] });
    this.frontEnd = new FrontEnd(frontEnd);
    this.decider = new Decider(decision);
    this.use(network);
  }

  /** Continue with this network, from its zero state. */
  use(network) {
    this.network = network;
    this.window = network.window(this.size, this.hop);
    this.logits = network.read(this.window.oldest);
  }

  /** The lengths of the history: the numbers of frames and of answers. */
  get most() {
    return [SHOWN * this.size, (SHOWN * this.size) / this.hop];
  }

  push(samples) {
    for (const sample of samples) {
      const codes = this.frontEnd.push(sample);
      if (codes) this.step(this.network.encode(codes));
    }
  }

  step(input) {
    const [frames, answers] = this.most;
    this.inputs = [...this.inputs, input].slice(-frames);
    const logits = this.window.push(input);
    if (!logits) return;
    this.logits = logits;
    this.answers = [...this.answers, shares(logits, this.network.logitScale)].slice(-answers);
    const event = this.decider.decide(logits);
    if (event >= 0) this.onEvent(event);
  }
}
