/* The stored sequences of a page: deflated, and unpacked before its networks start. */
import { networkOf } from "./reservoir.js";

/** Return the int32 codes of base64 text: deflated, all lowest bytes first, then the next ones. */
export async function inflated(text) {
  const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = bytes.length / 4;
  return Int32Array.from({ length: count }, (_, i) =>
    [0, 1, 2, 3].reduce((code, plane) => code | (bytes[plane * count + i] << (8 * plane)), 0),
  );
}

/** Return the stored sequences as [{inputs, labels}]; raw readings are encoded as on a device. */
export async function storedSequences({ deflated, steps, width, raw, lengths, labels }, model) {
  const codes = await inflated(deflated);
  const network = networkOf(model);
  const read = (at) => (raw ? network.encode(codes.subarray(at, at + width)) : codes.subarray(at, at + width));
  return labels.map((label, row) => {
    const at = row * steps * width;
    const inputs = Array.from({ length: lengths ? lengths[row] : steps }, (_, t) =>
      model.inputKind === "dense" ? read(at + t * width) : codes[at + t],
    );
    return { inputs, labels: [label].flat().slice(0, inputs.length) };
  });
}
