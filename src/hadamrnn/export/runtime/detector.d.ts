
/** What a stream of a detector keeps; made by `Detector.init`. */
export interface DetectorStream {
  readonly state: State;
  /** The smoothed squared distance after the last sample, in units of 2^-16. */
  readonly level: number;
}

/** How far each sample lies from the network's prediction of it, smoothed. */
export class Detector {
  /** A level above it is an alarm. */
  readonly threshold: number;
  /** Return the state of a new stream; its level is 0. */
  init(): DetectorStream;
  /** Take one sample's raw readings, an int32 for each channel; return whether the level is above the threshold. */
  push(stream: DetectorStream, readings: ArrayLike<number>): boolean;
}

export const detector: Detector;
