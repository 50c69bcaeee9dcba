/**
 * The smoothed distance of each sample from the network's prediction, equal to Python and the exported C bit for bit.
 * The logits before a sample predict its codes.
 */
export class Detector {
  constructor(network, fields) {
    Object.assign(this, { network }, fields);
  }

  /** Return the state of a new stream, whose level stays 0 for `warmup` samples. */
  init() {
    return { state: this.network.init(), sum: 0, level: 0, waiting: this.warmup };
  }

  /** Take one sample's raw readings; return whether the level, `stream.level`, is above `threshold`. */
  push(stream, readings) {
    const codes = this.network.encode(readings);
    const distance = this.distance(codes, this.network.read(stream.state));
    this.network.step(stream.state, codes);
    const unit = 2 ** this.smoothing;
    stream.sum += (stream.waiting > 0 ? 0 : distance) - Math.floor(stream.sum / unit); // below 2^45
    stream.waiting = Math.max(stream.waiting - 1, 0);
    stream.level = Math.floor(stream.sum / unit);
    return stream.level > this.threshold;
  }

  /** Return the squared distance of codes from their prediction by logits, in units of 2^-16. */
  distance(codes, logits) {
    const half = 1n << BigInt(this.shift - 1);
    const residuals = Array.from(codes, (code, i) => {
      const product = BigInt(logits[i]) * BigInt(this.multiplier);
      const predicted = Number((product + half) >> BigInt(this.shift));
      return code - saturated(predicted, 16);
    });
    return this.whitening.reduce((total, row, i) => {
      const sum = row.reduce((before, weight, j) => before + weight * residuals[j], 0); // below 2^37
      const z = saturated(Math.floor(sum / 2 ** this.whiteningShift[i] + 0.5), 13);
      return total + z * z;
    }, 0);
  }
}
