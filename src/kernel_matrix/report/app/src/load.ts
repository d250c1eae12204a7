/** Load files of data: scripts that call `kernelMatrix.put(NAME, VALUE)`. A page that is opened from a file may not fetch. */

import type {
  AgreementReport,
  CellChunk,
  CellDetail,
  ChecksData,
  HistoryData,
  Overview,
  SpeedData,
  Toolchains,
} from "./data";

/** The version of the data that this page can show. */
const SCHEMA_VERSION = 4;

export interface Files {
  overview: Overview;
  agreement: AgreementReport;
  toolchains: Toolchains;
  checks: ChecksData;
  history: HistoryData;
  speed: SpeedData;
}

/** What is wrong with a file of data, in words for people. */
export class DataError extends Error {}

const arrived = new Map<string, unknown>();
const loading = new Map<string, Promise<unknown>>();

declare global {
  interface Window {
    kernelMatrix: { put: (name: string, value: unknown) => void };
  }
}

/** Receive the data of scripts from now on. */
export function receive(): void {
  window.kernelMatrix = { put: (name, value) => void arrived.set(name, value) };
}

/** Return the overview, which index.html loads itself. */
export function overview(): Overview {
  if (!arrived.has("overview")) {
    throw new DataError(
      "data/overview.js is not in this page's folder, or is cut short. Copy the whole folder of the site, or make the report again.",
    );
  }
  return checked(arrived.get("overview"));
}

function checked(value: unknown): Overview {
  const version = (value as Partial<Overview> | null)?.schema_version;
  if (version !== SCHEMA_VERSION) {
    throw new DataError(
      `data/overview.js has version ${String(version).slice(0, 40)} of the page's data, and this page shows version ${SCHEMA_VERSION}. ` +
        "Reload the page; if that does not help, make the report again with one version of kernel-matrix.",
    );
  }
  return value as Overview;
}

/** Load a file of data, once. */
export function load<K extends keyof Files>(name: K): Promise<Files[K]> {
  return file(name) as Promise<Files[K]>;
}

/** Load the details of a cell. */
export async function loadCell(chunk: number, id: string): Promise<{ detail: CellDetail; chunk: CellChunk }> {
  const content = (await file(`cells/${chunk}`)) as CellChunk;
  const detail = Object.hasOwn(content.cells, id) ? content.cells[id] : undefined;
  if (!detail) {
    throw new DataError(
      `data/cells/${chunk}.js does not have the cell ${id}. The files are of different reports: reload the page.`,
    );
  }
  return { detail, chunk: content };
}

/** Load the overview again, of a run that goes on, and forget the details. */
export async function reload(): Promise<Overview> {
  const before = arrived.get("overview");
  arrived.delete("overview");
  try {
    await added("overview", `?${Date.now()}`);
    const value = overview();
    loading.clear();
    stamp = `?${Date.now()}`;
    return value;
  } catch (error) {
    arrived.set("overview", before);
    throw error;
  }
}

let stamp = ""; // other files of the same address would come from the browser's cache

function file(name: string): Promise<unknown> {
  let promise = loading.get(name);
  if (!promise) {
    promise = added(name, stamp);
    loading.set(name, promise);
    promise.catch(() => loading.delete(name)); // so that another try is possible
  }
  return promise;
}

function added(name: string, query: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    arrived.delete(name);
    script.src = `data/${name}.js${query}`;
    script.onload = () => {
      script.remove();
      if (arrived.has(name)) {
        const value = arrived.get(name);
        if (name !== "overview") arrived.delete(name);
        resolve(value);
      } else {
        reject(
          new DataError(
            `data/${name}.js is damaged: it is cut short, or is no data of this page. Make the report again.`,
          ),
        );
      }
    };
    script.onerror = () => {
      script.remove();
      reject(
        new DataError(`data/${name}.js is not there. Copy the whole folder of the site, or make the report again.`),
      );
    };
    document.head.append(script);
  });
}
