import { type FileHandle, open } from 'node:fs/promises';
import { FRAME_MARKER, type Frame, frameAt, frameLengthAt, MAX_FRAME_BYTES } from './frame.ts';

const CHUNK_BYTES = 1024 * 1024;

/** Opens a file for reading, hands it over and closes it in every case. */
export async function withFile<T>(path: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, 'r');
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** Reads `length` bytes at `offset`; fewer only at the end of the file. */
export async function readBytes(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  let read = 0;
  while (read < length) {
    const { bytesRead } = await file.read(bytes, read, length - read, offset + read);
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return read === length ? bytes : bytes.subarray(0, read);
}

/**
 * Visits the frames between `from` and `to` in order. Returns the offset behind the last good frame that was visited:
 * `to` when all are good, less when a frame is damaged or cut off, or when `visit` returned true to stop behind that
 * frame. A frame's bytes are valid during the visit only.
 */
export async function walkFrames(
  file: FileHandle,
  from: number,
  to: number,
  visit: (frame: Frame, offset: number) => boolean | undefined,
): Promise<number> {
  let at = from;
  let wanted = CHUNK_BYTES;
  while (at < to) {
    const bytes = await readBytes(file, at, Math.min(wanted, to - at));
    let start = 0;
    let frame = frameAt(bytes, start);
    while (frame) {
      start += frame.length;
      if (visit(frame, at + frame.start)) return at + start;
      frame = frameAt(bytes, start);
    }
    at += start;
    const claimed = frameLengthAt(bytes, start);
    const cutByChunk = at + (bytes.length - start) < to && bytes.length - start < (claimed ?? FRAME_MARKER.length * 8);
    if (!cutByChunk) return at;
    wanted = Math.max(CHUNK_BYTES, claimed ?? 0);
  }
  return at;
}

/** The offset of the first good frame that starts at or behind `from`; undefined when none does. */
export async function findFrame(file: FileHandle, from: number, to: number): Promise<number | undefined> {
  for (let at = from; at < to; at += CHUNK_BYTES) {
    const bytes = await readBytes(file, at, Math.min(CHUNK_BYTES + FRAME_MARKER.length - 1, to - at));
    for (let start = bytes.indexOf(FRAME_MARKER); start >= 0; start = bytes.indexOf(FRAME_MARKER, start + 1)) {
      if ((await readFrame(file, at + start, to)) !== undefined) return at + start;
    }
  }
  return undefined;
}

/** The verified frame at `offset`; `length` saves a read when it is known. */
export async function readFrame(file: FileHandle, offset: number, to: number, length?: number): Promise<Frame | undefined> {
  let claimed = length;
  if (claimed === undefined) claimed = frameLengthAt(await readBytes(file, offset, Math.min(32, to - offset)), 0);
  if (claimed === undefined || claimed > MAX_FRAME_BYTES || offset + claimed > to) return undefined;
  const frame = frameAt(await readBytes(file, offset, claimed), 0);
  return frame?.length === claimed ? frame : undefined;
}
