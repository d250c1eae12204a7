/** How one value of a search matches a text, a number or yes and no. */

/** Return a pattern for a value with `*` and `?`; `\` before them makes them ordinary. */
export function pattern(value: string, whole: boolean): RegExp {
  const source = value.replace(/\\([*?\\])|[\s\S]/g, (character, escaped: string | undefined) => {
    if (escaped) return `\\${escaped}`;
    if (character === "*") return "[\\s\\S]*";
    if (character === "?") return "[\\s\\S]";
    return character.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  });
  return new RegExp(whole ? `^${source}$` : source, "iu");
}

/** Return a test of whether a text has this value as a whole word, as `bf16` is one in `tokens5-bf16-scale1`. */
export function word(value: string): RegExp {
  return new RegExp(`(^|[^a-z0-9])(${pattern(value, false).source})(?=$|[^a-z0-9])`, "iu");
}

const NUMBER = "[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?|[+-]?inf";
const COMPARED = new RegExp(`^(>=|<=|>|<|=)?(${NUMBER})$`, "i");
const RANGE = new RegExp(`^(${NUMBER})?\\.\\.(${NUMBER})?$`, "i");

function parsed(text: string): number {
  return /inf/i.test(text) ? (text.startsWith("-") ? -Infinity : Infinity) : Number(text);
}

/** Return a test for a number, such as `>1.5`, `0.9..1.1`, `inf` or `none`; null if the value is no such thing. */
export function compared(value: string): ((known: number) => boolean) | null {
  if (/^none$/i.test(value)) return (known) => Number.isNaN(known);
  if (/^any$/i.test(value) || value === "*") return (known) => !Number.isNaN(known);
  const range = RANGE.exec(value);
  if (range && (range[1] || range[2])) {
    const [low, high] = [range[1] ? parsed(range[1]) : -Infinity, range[2] ? parsed(range[2]) : Infinity];
    return (known) => known >= low && known <= high;
  }
  const match = COMPARED.exec(value);
  if (!match) return null;
  const limit = parsed(match[2]!);
  switch (match[1]) {
    case ">":
      return (known) => known > limit;
    case ">=":
      return (known) => known >= limit;
    case "<":
      return (known) => known < limit;
    case "<=":
      return (known) => known <= limit;
    default:
      return (known) => known === limit;
  }
}

/** Return whether a value means yes; null if it means neither. */
export function yes(value: string): boolean | null {
  if (/^(yes|y|true|1)$/i.test(value)) return true;
  if (/^(no|n|false|0)$/i.test(value)) return false;
  return null;
}
