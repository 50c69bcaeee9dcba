/** A step's input: dense codes (a number where there is one channel), or an id. */
export type Input = number | ArrayLike<number>;

/** What a stream keeps between steps; made by `Network.init`. */
export interface State {
  /** The state of every layer, lowest first. */
  readonly h: Int32Array[];
  /** Steps so far. */
  readonly steps: number;
  /** Entries of the state that were clipped so far: past the calibrated length a state may outgrow its bits. */
  readonly saturations: number;
}

/** A network of integers: the bits of the Python engine and of the exported C. */
export class Network {
  readonly inputKind: "dense" | "one_hot" | "embedded";
  readonly inputSize: number;
  readonly inputBits: number;
  readonly outputSize: number;
  /** Ids lie below it; 0 for dense inputs. */
  readonly vocabularySize: number;
  /** Whether `run` answers after every step. */
  readonly everyOutput: boolean;
  /** The names of the classes, or none. */
  readonly classNames: readonly string[];
  /** The steps that the state was scaled for, where known. */
  readonly calibratedLength: number | null;
  /** The most steps between two `init` that a pooled network may see; 0 where there is no such limit. */
  readonly longest: number;
  /** The value of a raw reading of 1, in the units of the training data; null for ids. */
  readonly rawUnit: number | null;
  /** The network reads (value - offset) / scale, channel by channel; null for ids. */
  readonly offset: readonly number[] | null;
  readonly scale: readonly number[] | null;
  /** A logit times this is a real number. */
  readonly logitScale: number;

  /** Return the zero state of a new stream. */
  init(): State;
  /** Advance a stream. False: the id is outside the vocabulary or `longest` is reached, and the state stays. */
  step(state: State, input: Input): boolean;
  /** Return the logits of a stream. */
  read(state: State): Int32Array;
  /** Run a sequence from the zero state: its last logits, or those of every step with `everyOutput`. */
  run(sequence: Iterable<Input>): Int32Array | Int32Array[];
  /** Return the class that the logits name. */
  classify(logits: Int32Array): number;
  /** Return a regressor's answers of logits, integers in units of 2^-values.fracBits. */
  fixedValues(logits: ArrayLike<number>): Float64Array;
  /** Return readings corrected by a device's zero and gain of each channel, the gain in units of 2^-14. */
  calibrate(readings: ArrayLike<number>, zero: ArrayLike<number>, gain: ArrayLike<number>): Int32Array;
  /** Return the codes of a sensor's raw readings, an int32 for each channel. */
  encode(readings: ArrayLike<number>): Int32Array;
  /** Return the codes of a step's values, in the units of the training data: `encode` of round(value / rawUnit). */
  encodeValues(values: ArrayLike<number>): Int32Array;
  /** Return a sliding window over this network. */
  window(size: number, hop: number): SlidingWindow;
}

/**
 * Every `hop` inputs, the logits of exactly the last `size` ones: size / hop states take turns, and restart once read.
 */
export class SlidingWindow {
  constructor(network: Network, size: number, hop: number);
  /** Take one input; return logits where a hop ends and `size` inputs were seen, else null. */
  push(input: Input): Int32Array | null;
  /** The state that is read next. */
  readonly oldest: State;
}

export const network: Network;
export default network;
