/** The name that somebody probably meant. */

/** Return the number of letters that must change to make one word the other; neighbours that changed places count once. */
export function distance(one: string, other: string): number {
  const rows = Array.from({ length: one.length + 1 }, (_, row) => {
    const line = new Array<number>(other.length + 1).fill(0);
    line[0] = row;
    return line;
  });
  for (let column = 0; column <= other.length; column++) rows[0]![column] = column;
  for (let row = 1; row <= one.length; row++) {
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1] ? 0 : 1;
      let best = Math.min(rows[row - 1]![column]! + 1, rows[row]![column - 1]! + 1, rows[row - 1]![column - 1]! + same);
      if (row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]) {
        best = Math.min(best, rows[row - 2]![column - 2]! + 1);
      }
      rows[row]![column] = best;
    }
  }
  return rows[one.length]![other.length]!;
}

/** Return the most similar of some names; empty if none is similar. */
export function nearest(word: string, names: readonly string[]): string {
  let best = "";
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const name of names) {
    const far = distance(word.toLowerCase(), name.toLowerCase());
    if (far < least) [best, least] = [name, far];
  }
  return best;
}
