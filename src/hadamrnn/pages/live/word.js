/* The copy task as a word: each letter is two symbols; the network is to say them after a long wait. */

const LETTERS = "abcdefghijklmnopqrstuvwxyz ";

export class Word {
  /** `changed(inputs)` is called with the sequence of a new word. */
  constructor({ symbols, delay, marker, base }, part, changed) {
    Object.assign(this, { symbols, delay, marker, base, part, changed });
    part.say.addEventListener("click", () => this.start());
    part.word.addEventListener("keydown", (event) => event.key === "Enter" && this.start());
  }

  start() {
    this.said = this.part.word.value.toLowerCase().replace(/[^a-z]/g, " ").slice(0, this.symbols / 2);
    this.changed(this.inputs(this.said));
  }

  /** Return the sequence: the symbols, the wait, the marker that asks for them, and time to answer. */
  inputs(word) {
    const letters = Array.from(word.padEnd(this.symbols / 2), (letter) => LETTERS.indexOf(letter));
    const codes = letters.flatMap((code) => [1 + Math.floor(code / this.base), 1 + (code % this.base)]);
    const blanks = (count) => new Array(count).fill(0);
    return [...codes, ...blanks(this.delay), this.marker, ...blanks(this.symbols - 1)];
  }

  /** Return the word that the last answers spell. */
  spelt(said) {
    const codes = said.slice(-this.symbols);
    const pairs = Array.from({ length: Math.floor(codes.length / 2) }, (_, i) => codes.slice(2 * i, 2 * i + 2));
    return pairs.map(([high, low]) => LETTERS[(high - 1) * this.base + low - 1] ?? "?").join("").trim();
  }

  /** Return what happens at a step, for the line that shows progress. */
  stage(step, said) {
    if (step <= this.symbols) return ", reading the word";
    if (step <= this.symbols + this.delay) return ", waiting";
    return `, saying ${this.spelt(said.slice(this.symbols + this.delay))}`;
  }

  answer(said) {
    return `After ${this.delay.toLocaleString("en")} steps the network says: ${this.spelt(said)}`;
  }
}
