/* Experiments on a running network: fewer bits, flipped signs, and the accuracy that remains. */
import { networkOf } from "./reservoir.js";

const SLICE = 8; // milliseconds of work between two frames

/** Return codes of `bits` bits rounded to the nearest codes of `fewer` bits, on the original scale. */
export function coarse(codes, bits, fewer) {
  const unit = 2 ** (bits - fewer);
  const most = 2 ** (fewer - 1);
  return codes.map((code) => unit * Math.min(most - 1, Math.max(-most, Math.floor(code / unit + 0.5))));
}

/** Return the network with U and V rounded to `bits` bits and some signs flipped, each given as [layer, unit]. */
export function changed(model, bits, flips) {
  const network = networkOf(model);
  for (const layer of network.layers) layer.weight &&= coarse(layer.weight, model.weightBits, bits);
  network.outputWeight = coarse(network.outputWeight, model.weightBits, bits);
  for (const [layer, unit] of flips) network.layers[layer].signs[unit] *= -1;
  return network;
}

/** Return the predictions for a whole sequence: the class at its end, or after every step. */
export function answers(network, inputs) {
  return [network.run(inputs)].flat().map((logits) => network.classify(logits));
}

/** Return exp(l_k) / sum_j exp(l_j) of real logits; a single one separates two classes. */
export function shares(logits, scale) {
  const real = logits.length === 1 ? [0, logits[0] * scale] : Array.from(logits, (code) => code * scale);
  const most = Math.max(...real);
  const powers = real.map((value) => Math.exp(value - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** Evaluate the stored sequences without blocking the page: counts[predicted][label]. */
export class Count {
  constructor(network, stored, classes, report) {
    this.counts = Array.from({ length: classes }, () => new Array(classes).fill(0));
    Object.assign(this, { network, stored, report, next: 0, right: 0, asked: 0, steps: 0, seconds: 0, wrong: [] });
    this.timer = setTimeout(() => this.slice());
  }

  stop() {
    clearTimeout(this.timer);
  }

  get done() {
    return this.next === this.stored.length;
  }

  slice() {
    const start = performance.now();
    while (!this.done && performance.now() - start < SLICE) this.one(this.stored[this.next]);
    this.seconds += (performance.now() - start) / 1000;
    this.report(this);
    if (!this.done) this.timer = setTimeout(() => this.slice());
  }

  one({ inputs, labels }) {
    const predicted = answers(this.network, inputs);
    labels.forEach((label, i) => {
      this.counts[predicted[i]][label] += 1;
      this.right += Number(predicted[i] === label);
      this.asked += 1;
    });
    if (labels.some((label, i) => predicted[i] !== label)) this.wrong.push(this.next);
    this.steps += inputs.length;
    this.next += 1;
  }
}
