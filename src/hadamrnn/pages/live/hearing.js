/* Sound without end, int16 samples: its frames, the answers of a sliding window, and the events they raise. */
import { Decider } from "./decision.js";
import { FrontEnd } from "./front_end.js";
import { shares } from "./lab.js";

const SHOWN = 3; // windows side by side that are remembered

export class Hearing {
  /** `decided(class)` is told of each event. */
  constructor({ frontEnd, decision }, network, decided) {
    Object.assign(this, { size: decision.window, hop: decision.hop, decided, inputs: [], answers: [] });
    this.frontEnd = new FrontEnd(frontEnd);
    this.decider = new Decider(decision);
    this.use(network);
  }

  /** Go on with this network, which has heard nothing yet. */
  use(network) {
    this.network = network;
    this.window = network.window(this.size, this.hop);
    this.logits = network.read(this.window.oldest);
  }

  /** The frames that are remembered at most, and the answers. */
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
    if (event >= 0) this.decided(event);
  }
}
