/* Log energies of frequency bands from int16 samples, equal to `front_end/reference.py` (which has the equations) bit
 * for bit.
 *
 *     const codes = frontEnd.push(sample); // an Int32Array at the end of each frame, else null
 *     if (codes) network.step(state, network.encode(codes));
 *
 * All numbers are whole and below 2^53, so doubles are exact.
 */

/** Return the bits of v, or of -1 - v if v is negative. */
function bitsOf(magnitudes) {
  return 32 - Math.clz32(magnitudes);
}

export class FrontEnd {
  /** `fields` come from Python's `front_end_js`. */
  constructor(fields) {
    Object.assign(this, fields);
    this.points = this.fftSize / 2;
    this.samples = new Int16Array(this.frame);
    this.real = new Int32Array(this.points);
    this.imaginary = new Int32Array(this.points);
    this.noise = new Int32Array(this.bands);
    this.reset();
  }

  /** Reset the front end, discarding all samples. */
  reset() {
    this.filled = 0;
    this.frames = 0;
  }

  /** Take one sample; if it completes a frame, return the frame's codes, else null. */
  push(sample) {
    this.samples[this.filled] = sample;
    this.filled += 1;
    if (this.filled < this.frame) return null;
    const scale = this.load() - 14 + this.transform();
    const codes = this.codes(128 * scale - 64 * (8 + Math.log2(this.fftSize)));
    if (this.noiseShift) this.subtractNoise(codes);
    this.frames = 1;
    this.samples.copyWithin(0, this.hop);
    this.filled = this.frame - this.hop;
    return codes;
  }

  /** Fill real and imaginary with the windowed frame in bit-reversed order; return the bits of its values. */
  load() {
    const { samples, frame, points } = this;
    const mean = this.isMel ? 0 : Math.trunc(samples.reduce((sum, x) => sum + x, 0) / frame);
    const values = Array.from(samples, (x, n) => {
      if (!this.isMel) return x - mean;
      const before = samples[n ? n - 1 : 0];
      return x - before + ((before + 16) >> 5);
    });
    const bits = bitsOf(values.reduce((all, v) => all | (v ^ (v >> 31)), 0));
    const windowed = (n) =>
      n < frame ? Math.floor((values[n] * this.window[Math.min(n, frame - 1 - n)]) / 2 ** (bits + 1) + 0.5) : 0;
    const places = Math.log2(points);
    for (let n = 0; n < points; n += 1) {
      let reversed = 0;
      for (let bit = 0; bit < places; bit += 1) reversed |= ((n >> bit) & 1) << (places - 1 - bit);
      this.real[reversed] = windowed(2 * n);
      this.imaginary[reversed] = windowed(2 * n + 1);
    }
    return bits;
  }

  /** Return cosine and sine of 2 pi t / fftSize, t up to half of fftSize. */
  turn(t) {
    const quarter = this.fftSize / 4;
    const cosine = t <= quarter ? this.cosines[t] : -this.cosines[2 * quarter - t];
    return [cosine, this.cosines[Math.abs(quarter - t)]];
  }

  /** Transform the values in place; return the number of bits by which they were divided. */
  transform() {
    const { real, imaginary, points } = this;
    const magnitude = (all, v) => all | (v ^ (v >> 31));
    let divided = 0;
    for (let half = 1; half < points; half *= 2) {
      const bits = bitsOf(imaginary.reduce(magnitude, real.reduce(magnitude, 0)));
      const shift = 14 + Math.max(bits - 13, 0);
      const rounding = 1 << (shift - 1);
      divided += shift - 14;
      for (let j = 0; j < half; j += 1) {
        const [cosine, sine] = this.turn((j * points) / half);
        for (let a = j; a < points; a += 2 * half) {
          const b = a + half;
          const turnedReal = real[b] * cosine + imaginary[b] * sine;
          const turnedImaginary = imaginary[b] * cosine - real[b] * sine;
          const aReal = real[a] * 16384 + rounding;
          const aImaginary = imaginary[a] * 16384 + rounding;
          real[a] = (aReal + turnedReal) >> shift;
          imaginary[a] = (aImaginary + turnedImaginary) >> shift;
          real[b] = (aReal - turnedReal) >> shift;
          imaginary[b] = (aImaginary - turnedImaginary) >> shift;
        }
      }
    }
    return divided;
  }

  /** Return |X[k]|^2 of the real frame, 0 < k < fftSize / 2. */
  power(k) {
    const { real, imaginary, points } = this;
    const [cosine, sine] = this.turn(k);
    const oddReal = real[k] - real[points - k];
    const oddImaginary = imaginary[k] + imaginary[points - k];
    const evenReal = (real[k] + real[points - k]) * 16384;
    const evenImaginary = (imaginary[k] - imaginary[points - k]) * 16384;
    const x = (evenReal + cosine * oddImaginary - sine * oddReal + 16384) >> 15;
    const y = (evenImaginary - cosine * oddReal - sine * oddImaginary + 16384) >> 15;
    return x * x + y * y;
  }

  /** Return the codes of all bands of the transformed frame. */
  codes(offset) {
    const { edges, weights, isMel } = this;
    const codes = new Int32Array(this.bands);
    let rising = 0;
    for (let edge = 1; edge < edges.length; edge += 1) {
      let falling = rising;
      rising = 0;
      for (let k = edges[edge - 1]; k < edges[edge]; k += 1) {
        const power = k ? this.power(k) : 0;
        const risen = isMel ? weights[k - edges[0]] : 0;
        rising += power * risen;
        falling += power * (256 - risen);
      }
      if (!isMel || edge > 1) codes[edge - (isMel ? 2 : 1)] = this.code(falling, offset);
    }
    return codes;
  }

  /** Return the code of one energy. */
  code(energy, offset) {
    if (!energy) return 0;
    const high = Math.floor(energy / 2 ** 32);
    const octave = high ? 63 - Math.clz32(high) : 31 - Math.clz32(energy);
    const mantissa = Math.floor(energy * 2 ** (15 - octave));
    const place = (mantissa >> 10) & 31;
    const low = this.log2[place];
    const value = low * 1024 + (this.log2[place + 1] - low) * (mantissa & 1023);
    return Math.max(64 * octave + ((value + 8192) >> 14) + offset, 0);
  }

  /** Subtract each band's noise floor. */
  subtractNoise(codes) {
    codes.forEach((code, band) => {
      const floor = this.frames ? this.noise[band] : code * 256;
      const difference = code * 256 - floor;
      this.noise[band] = floor + (difference >> (difference < 0 ? 3 : this.noiseShift));
      codes[band] = Math.max(code - (this.noise[band] >> 8), 0);
    });
  }
}
