/** Numbers of the data, and how they are written. JSON has no NaN and no infinity: the data write them as words. */

export type Written = number | string | null | undefined;

/** Return a number of the data; NaN where there is none. */
export function number(value: Written): number {
  if (typeof value === "number") return value;
  if (typeof value !== "string") return NaN;
  const word = value.trim().toLowerCase().replace(/^\+/, "");
  if (word === "inf" || word === "infinity") return Infinity;
  if (word === "-inf" || word === "-infinity") return -Infinity;
  return word === "" ? NaN : Number(word);
}

/** Return an error or a ratio for ordering: NaN is as bad as infinity, and null is not known (NaN). */
export function badness(value: Written): number {
  if (value === null || value === undefined) return NaN;
  const known = number(value);
  return Number.isNaN(known) ? Infinity : known;
}

/** Return a number in about three digits. */
export function short(value: Written): string {
  if (value === null || value === undefined || value === "") return "";
  const known = number(value);
  if (Number.isNaN(known)) return "NaN";
  if (!Number.isFinite(known)) return known > 0 ? "∞" : "−∞";
  if (known === 0) return "0";
  const size = Math.abs(known);
  if (Number.isInteger(known) && size < 1e6) return String(known);
  if (size >= 1e5 || size < 1e-3) return known.toExponential(1).replace("e+", "e");
  return String(Number(known.toPrecision(3)));
}

/** Return a ratio in four characters or so, such as `1.05 ×`. */
export function times(value: Written): string {
  if (value === null || value === undefined) return "";
  const known = badness(value);
  if (!Number.isFinite(known)) return "∞ ×";
  if (known >= 9999.5) return `${known.toExponential(0).replace("e+", "e")} ×`;
  return `${known >= 99.95 ? known.toFixed(0) : known >= 9.995 ? known.toFixed(1) : known.toFixed(2)} ×`;
}

/** Return a share in per cent, with two digits. */
export function percent(value: Written): string {
  if (value === null || value === undefined) return "";
  const known = number(value) * 100;
  if (!Number.isFinite(known)) return short(value);
  return `${known >= 99.5 ? known.toFixed(0) : Number(known.toPrecision(2))} %`;
}

/** Return a time that is given in seconds. */
export function duration(value: Written): string {
  if (value === null || value === undefined) return "";
  const known = number(value);
  if (!Number.isFinite(known)) return short(value);
  if (known >= 90) return `${Number((known / 60).toPrecision(3))} min`;
  if (known >= 1) return `${Number(known.toPrecision(3))} s`;
  if (known >= 1e-3) return `${Number((known * 1e3).toPrecision(3))} ms`;
  return `${Number((known * 1e6).toPrecision(3))} µs`;
}

/** Return how many of how many, such as `43 of 50`. */
export function outOf(count: number, whole: number): string {
  return `${count.toLocaleString("en")} of ${whole.toLocaleString("en")}`;
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Return a day and a time as they stand in the data, without seconds. */
export function moment(iso: string | null | undefined): string {
  if (!iso) return "";
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(iso);
  return match ? `${match[1]} ${match[2]}` : iso.slice(0, 40);
}

/** Return the days from a moment until now: negative where the moment is in the future, NaN where it is none. */
export function daysSince(iso: string, now: number): number {
  return (now - Date.parse(iso)) / 86_400_000;
}
