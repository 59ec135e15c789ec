import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { askFile, type Given, type OperationName, refusalFrom } from '../kit/ask.ts';
import { WORDS } from '../words.ts';

interface DownloadFacts<N extends OperationName> {
  readonly asks: N;
  readonly given: Given<N>;
  /** Of the file. */
  readonly name: string;
  readonly children: string;
}

/**
 * Saves the answer to a read as a file. A mere link could not say which org is meant, and would save a refusal as if it
 * were the file.
 */
export function Download<N extends OperationName>({ asks, given, name, children }: DownloadFacts<N>): JSX.Element {
  const [said, setSaid] = useState<string>();
  const [isAsked, setAsked] = useState(false);
  const save = async (): Promise<void> => {
    setAsked(true);
    try {
      saveAs(await askFile(asks, given), name);
      setSaid(undefined);
    } catch (error) {
      setSaid(refusalFrom(error).message);
    }
    setAsked(false);
  };
  return (
    <>
      <button type="button" class="btn" disabled={isAsked} onClick={save}>
        {children}
      </button>
      {said !== undefined && (
        <span class="note" role="alert">
          {WORDS.notSaved(said)}
        </span>
      )}
    </>
  );
}

function saveAs(file: Blob, name: string): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has taken it by the next turn of its loop.
  setTimeout(() => URL.revokeObjectURL(url), 0);
}
