/* The copy task with a word: each letter is two symbols, which the network must repeat after a long wait. */

const LETTERS = "abcdefghijklmnopqrstuvwxyz ";

export class Word {
  /** `changed(inputs)` is called with the sequence of a new word. */
  constructor({ symbols, delay, marker, base }, part, changed) {
    Object.assign(this, { symbols, delay, marker, base, part, changed });
    part.say.addEventListener("click", () => this.start());
    part.word.addEventListener("keydown", (event) => event.key === "Enter" && this.start());
  }

  start() {
    this.typed = this.part.word.value.toLowerCase().replace(/[^a-z]/g, " ").slice(0, this.symbols / 2);
    this.changed(this.inputs(this.typed));
  }

  /** Return the sequence: the symbols, the wait, the marker that requests them, and time to answer. */
  inputs(word) {
    const letters = Array.from(word.padEnd(this.symbols / 2), (letter) => LETTERS.indexOf(letter));
    const codes = letters.flatMap((code) => [1 + Math.floor(code / this.base), 1 + (code % this.base)]);
    const blanks = (count) => new Array(count).fill(0);
    return [...codes, ...blanks(this.delay), this.marker, ...blanks(this.symbols - 1)];
  }

  /** Return the word spelled by the last answers. */
  spelled(predicted) {
    const codes = predicted.slice(-this.symbols);
    const pairs = Array.from({ length: Math.floor(codes.length / 2) }, (_, i) => codes.slice(2 * i, 2 * i + 2));
    return pairs.map(([high, low]) => LETTERS[(high - 1) * this.base + low - 1] ?? "?").join("").trim();
  }

  /** Show the letters read, the steps waited and the letters answered after `step` steps. */
  show(step, predicted) {
    const { part, symbols, delay } = this;
    const waited = Math.min(delay, Math.max(0, step - symbols));
    part.reads.textContent = this.typed.slice(0, Math.floor(step / 2));
    part.wait.value = waited;
    part.waited.textContent = `${waited.toLocaleString("en")} of ${delay.toLocaleString("en")} steps`;
    part.says.textContent = this.spelled(predicted.slice(symbols + delay));
  }
}
