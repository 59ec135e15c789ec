import { close, closeSync, fdatasync, fsync, ftruncateSync, open, openSync, unlink, unlinkSync, write, writeSync } from 'node:fs';

/**
 * The few file operations the journal writes with; tests put a failing disk behind it. Every error is the system's
 * (`code` ENOSPC, EIO, …).
 */
export interface Files {
  /** Creates a file that must not exist yet, readable and writable by the owner only. */
  create(path: string): number;
  /** Opens an existing file for writing. */
  open(path: string): number;
  /** Writes at `position`; returns how many bytes were written, which may be fewer. */
  writeSync(fd: number, bytes: Buffer, from: number, length: number, position: number): number;
  write(fd: number, bytes: Buffer, from: number, length: number, position: number): Promise<number>;
  /** Resolves when the data of the file is on the medium. */
  datasync(fd: number): Promise<void>;
  truncate(fd: number, length: number): void;
  close(fd: number): void;
  unlink(path: string): void;
  /** The same for a file that may be large, which takes the file system a while. */
  remove(path: string): Promise<void>;
  /** Resolves when the names in the folder are on the medium. */
  syncFolder(path: string): Promise<void>;
}

export const systemFiles: Files = {
  create: (path) => openSync(path, 'wx+', 0o600),
  open: (path) => openSync(path, 'r+'),
  writeSync: (fd, bytes, from, length, position) => writeSync(fd, bytes, from, length, position),
  write: (fd, bytes, from, length, position) =>
    new Promise((resolve, reject) => {
      write(fd, bytes, from, length, position, (error, written) => (error ? reject(error) : resolve(written)));
    }),
  datasync: (fd) =>
    new Promise((resolve, reject) => {
      fdatasync(fd, (error) => (error ? reject(error) : resolve()));
    }),
  truncate: (fd, length) => ftruncateSync(fd, length),
  close: (fd) => closeSync(fd),
  unlink: (path) => unlinkSync(path),
  remove: (path) =>
    new Promise((resolve, reject) => {
      unlink(path, (error) => (error ? reject(error) : resolve()));
    }),
  syncFolder: (path) =>
    new Promise((resolve, reject) => {
      open(path, 'r', (error, fd) => {
        if (error) return reject(error);
        fsync(fd, (failed) => close(fd, () => (failed ? reject(failed) : resolve())));
      });
    }),
};
