/* Resample sound to int16 samples at another rate, by a windowed sinc whose phases are computed once. */

const CROSSINGS = 32; // zero crossings of the sinc on either side
const PASSED = 0.98; // fraction of the common band that passes

/** Return taps that read the signal `phase` samples after tap `reach - 1`; their sum is 1. */
function taps(phase, reach, cutoff) {
  const values = Float64Array.from({ length: 2 * reach }, (_, k) => {
    const x = k - (reach - 1) - phase;
    const angle = (Math.PI * x) / reach;
    const blackman = Math.abs(x) < reach ? 0.42 + 0.5 * Math.cos(angle) + 0.08 * Math.cos(2 * angle) : 0;
    return blackman * (x === 0 ? 1 : Math.sin(Math.PI * cutoff * x) / (Math.PI * cutoff * x));
  });
  const sum = values.reduce((total, value) => total + value, 0);
  return values.map((value) => value / sum);
}

function commonDivisor(a, b) {
  return b ? commonDivisor(b, a % b) : a;
}

export class Resampler {
  /** Rates in Hz, whole numbers. */
  constructor(from, to) {
    const common = commonDivisor(from, to);
    const cutoff = PASSED * Math.min(1, to / from); // relative to half of the rate `from`
    this.reach = Math.ceil(CROSSINGS / cutoff);
    this.phases = Array.from({ length: to / common }, (_, i) => taps((i * common) / to, this.reach, cutoff));
    this.advance = from / common; // in phases, from one sample to the next
    this.phase = 0;
    this.kept = new Float32Array(this.reach - 1); // aligns the first output sample with the first input
  }

  /** Take a block of values from -1 to 1; return the int16 samples that it completes. */
  push(block) {
    const input = new Float32Array(this.kept.length + block.length);
    input.set(this.kept);
    input.set(block, this.kept.length);
    const samples = [];
    let at = 0;
    while (at + 2 * this.reach <= input.length) {
      const weights = this.phases[this.phase];
      let sum = 0;
      for (let k = 0; k < weights.length; k += 1) sum += weights[k] * input[at + k];
      samples.push(Math.min(32767, Math.max(-32768, Math.round(sum * 32768))));
      this.phase += this.advance;
      at += Math.floor(this.phase / this.phases.length);
      this.phase %= this.phases.length;
    }
    this.kept = input.slice(at);
    return Int16Array.from(samples);
  }
}
