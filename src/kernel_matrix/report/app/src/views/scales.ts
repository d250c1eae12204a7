/** The steps of colours. */

import { badness, type Written } from "../numbers";

/** The upper ends of the steps of the noise ratio. The middle step is as exact as the baseline, to a tenth. */
const ENDS = [0.5, 0.9, 1.1, 1.5, 2, 4];
export const HEAT_STEPS: readonly string[] = [
  `up to ${ENDS[0]} ×`,
  ...ENDS.slice(1).map((end, index) => `${ENDS[index]} to ${end} ×`),
  `over ${ENDS.at(-1)} ×`,
];

/** Return the step of a noise ratio. */
export function heatStep(ratio: Written): number {
  const value = badness(ratio);
  const step = ENDS.findIndex((end) => value <= end);
  return step < 0 ? ENDS.length : step;
}

const FAR = [0.5, 2, 16, 128, 4096]; // in ULP; below 0.5 the outputs are equal after rounding

/** Return the step of a distance in ULP. */
export function agreementStep(far: number): number {
  if (far < FAR[0]!) return 0;
  const step = FAR.slice(1).findIndex((end) => far <= end);
  return step < 0 ? FAR.length : step + 1;
}
