/* Sound without end, int16 samples: its frames, the answers of a sliding window, and what they decide. */
import { FrontEnd } from "./front_end.js";
import { shares } from "./lab.js";

const TOGETHER = 4; // windows in a row that decide
const SURE = 0.7; // the share that they must give a class on average
const SHOWN = 3; // windows side by side that are remembered

export class Hearing {
  /** `idle` are the classes that decide nothing; `decided(class)` is told of each other one as it begins. */
  constructor({ frontEnd, size, hop, idle }, network, decided) {
    Object.assign(this, { size, hop, idle, decided, decision: null, inputs: [], answers: [] });
    this.frontEnd = new FrontEnd(frontEnd);
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
    this.decide();
  }

  /** Decide on the class that the last windows are sure of on average; on none if there is no such class. */
  decide() {
    const last = this.answers.slice(-TOGETHER);
    const means = last[0].map((_, k) => last.reduce((sum, answer) => sum + answer[k], 0) / TOGETHER);
    const best = means.indexOf(Math.max(...means));
    const decision = means[best] >= SURE && !this.idle.includes(best) ? best : null;
    if (decision !== null && decision !== this.decision) this.decided(decision);
    this.decision = decision;
  }
}
