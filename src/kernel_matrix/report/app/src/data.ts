// Made by scripts/types.mjs from the models in page_data.py. Do not edit: npm run types.

/**
 * The models of all files of data, so that one JSON Schema has them all.
 */
export interface PageData {
  overview: Overview;
  cells: CellChunk;
  speed: SpeedData;
  agreement: AgreementReport;
  toolchains: Toolchains;
  checks: ChecksData;
  history: HistoryData;
}
/**
 * The part that the page shows first: every cell, and all totals.
 */
export interface Overview {
  schema_version: number;
  title: string;
  headline: string;
  run: Run;
  run_notes: RunNotes;
  silent_days: number;
  states: StateWord[];
  /**
   * When a result is stale.
   */
  stale_meaning: string;
  evidence: ("planned" | "lowered" | "compiled" | "told" | "held" | "emulated" | "ran")[];
  platforms: PlatformEntry[];
  lanes: Lane[];
  /**
   * The backend of each lane, in the order of ``lanes``.
   */
  backends: string[];
  /**
   * The devices that measured cells of each lane, in their order.
   */
  devices: string[][];
  /**
   * By PLATFORM/TARGET, the words that people have for its devices.
   */
  names: {
    [k: string]: string;
  };
  /**
   * The web address of the repository, for links to its lines; empty if not known.
   */
  repository: string;
  /**
   * What each lane needs to be known better than it is, in the order of ``lanes``; empty where it ran.
   */
  lacking: string[];
  ops: Op[];
  cells: CellColumns;
  texts: string[];
  silent: SilentLane[];
  stale: StaleReason[];
  /**
   * The 200 most frequent errors that no rule knows.
   */
  undiagnosed: UndiagnosedError[];
  notes: string[];
  problems: string[];
  /**
   * The names of the other files of data that exist, without ``cells``.
   */
  has: string[];
}
/**
 * The plan of the run, and the number of cells and cases in each state.
 */
export interface Run {
  tier: string;
  created: string;
  commits: string[];
  package: string;
  /**
   * What errors and times are compared with.
   */
  baseline: string;
  devices: string[];
  cells: number;
  cells_by_state: {
    [k: string]: number;
  };
  cells_by_evidence: {
    [k: string]: number;
  };
  /**
   * The cells of which an emulator or an interpreter ran a case.
   */
  emulated: number;
  /**
   * The stale cells by their evidence.
   */
  stale_by_evidence: {
    [k: string]: number;
  };
  cases: number;
  cases_by_state: {
    [k: string]: number;
  };
  stale_cases: number;
  /**
   * Results that belong to no planned case.
   */
  unplanned: number;
  /**
   * Cases of the tier that were not asked for, or have not run, and are not here.
   */
  left_out: number;
}
/**
 * Two sentences about the run; each is empty if it does not apply.
 */
export interface RunNotes {
  /**
   * How many jobs of a run have ended, while it still goes on.
   */
  running: string;
  /**
   * Which results were kept from earlier runs.
   */
  kept: string;
}
/**
 * A state of a case: its letter in ``case_states``, and what it means.
 */
export interface StateWord {
  letter: string;
  name:
    | "fail"
    | "error"
    | "fixed"
    | "missing"
    | "flaky"
    | "known"
    | "lowered"
    | "compiled"
    | "told"
    | "held"
    | "pass"
    | "unavailable"
    | "excluded";
  meaning: string;
  /**
   * What other test runners call it.
   */
  elsewhere: string[];
  red: boolean;
  /**
   * Its colour on white, as #rrggbb.
   */
  color: string;
}
/**
 * A platform and its targets.
 */
export interface PlatformEntry {
  name: string;
  title: string;
  /**
   * Whose devices run it, as matrix.yaml names the vendor.
   */
  vendor: string;
  /**
   * The vendor's name for people.
   */
  vendor_title: string;
  targets: string[];
}
/**
 * A toolchain on a target of a platform: the worst state of its cells, and their number by state and evidence.
 */
export interface Lane {
  platform: string;
  target: string;
  toolchain: string;
  state:
    | "fail"
    | "error"
    | "fixed"
    | "missing"
    | "flaky"
    | "known"
    | "lowered"
    | "compiled"
    | "told"
    | "held"
    | "pass"
    | "unavailable"
    | "excluded";
  evidence: "planned" | "lowered" | "compiled" | "told" | "held" | "emulated" | "ran";
  cells: number;
  by_state: {
    [k: string]: number;
  };
  by_evidence: {
    [k: string]: number;
  };
  /**
   * The cells of which an emulator or an interpreter ran a case.
   */
  emulated: number;
  /**
   * The stale cells by their evidence.
   */
  stale_by_evidence: {
    [k: string]: number;
  };
  canaries: Canaries | null;
  determinism: Determinism | null;
  history: LaneHistory;
}
/**
 * Faults that were put into results, and how many of them the comparison found.
 */
export interface Canaries {
  injected: number;
  caught: number;
}
/**
 * Runs of a kernel on the same inputs as one before, and how many of them gave other bits.
 */
export interface Determinism {
  repeats: number;
  differing: number;
}
/**
 * The last results of a lane (``cuda/sm_90/compiler-1.2``), its badge then, and since when the lane is silent.
 *
 * A result is as old as the start of its job: a report may be made of results that are old.
 */
export interface LaneHistory {
  /**
   * The start of the newest job that tried a case.
   */
  last_result: string | null;
  /**
   * The start of the newest job that ran a case on a device or in an emulator.
   */
  last_ran: string | null;
  /**
   * The start of the newest job that compiled a case and ran none of it.
   */
  last_compiled: string | null;
  message: string;
  color: string;
  silent_since: string | null;
}
/**
 * An operator in one direction, and the names of its cases.
 */
export interface Op {
  op: string;
  direction: string;
  cases: string[];
}
/**
 * The cells, a list for each property; all lists have the same length, in the order of the grid.
 *
 * A number that is an index refers to the list of the overview that the description names.
 */
export interface CellColumns {
  /**
   * Index into ``lanes``.
   */
  lane: number[];
  /**
   * Index into ``ops``.
   */
  op: number[];
  /**
   * Index into ``states``.
   */
  state: number[];
  /**
   * Index into ``evidence``.
   */
  evidence: number[];
  /**
   * A letter for each case of the op, in the order of its ``cases``; a full stop where the cell has no such case. Nothing stands for the cases after the cell's last one.
   */
  case_states: string[];
  /**
   * An empty list, but while a run goes on; then, for cells of a job that runs at this moment, as ``case_states``, with the letter of what the job's journal says of the case, and a full stop where it says nothing yet. The state of such a case is ``missing``, or red: what passed counts when the job has ended and was judged.
   */
  in_journal: string[];
  /**
   * The number of stale cases.
   */
  stale: number[];
  /**
   * The number of cases that an emulator or an interpreter ran.
   */
  emulated: number[];
  /**
   * Index into ``texts``: the reason of the state, or its beginning.
   */
  reason: number[];
  /**
   * Index into ``texts``: where an error stopped.
   */
  stage: number[];
  /**
   * Index into ``texts``: the rule of the diagnosis.
   */
  rule: number[];
  /**
   * The largest noise ratio of its outputs.
   */
  noise: (number | string | null)[];
  noise_by_dtype: {
    [k: string]: (number | string | null)[];
  };
  /**
   * By dtype, an index into ``texts``: the output with the largest noise ratio.
   */
  noise_output: {
    [k: string]: number[];
  };
  /**
   * By dtype, an index into ``evidence``: the least evidence of the cases of that output; -1 where nothing was measured.
   */
  noise_evidence: {
    [k: string]: number[];
  };
  /**
   * The error that came nearest to its limit, over that limit.
   */
  share: (number | string | null)[];
  /**
   * The largest ratio to the baseline's time.
   */
  speed: (number | string | null)[];
  /**
   * The seconds of all its cases.
   */
  seconds: number[];
  /**
   * Whether it was the odd one out in some output.
   */
  odd: boolean[];
  /**
   * The runs on the same inputs as one before that gave other bits; none where no case ran twice.
   */
  differing: (number | null)[];
  /**
   * The NUMBER of the file ``cells/NUMBER`` that has its details.
   */
  chunk: number[];
}
/**
 * A planned lane without a result in this run, or whose results in it are older than ``silent_days``.
 */
export interface SilentLane {
  lane: string;
  /**
   * The start of the newest job that tried a case of it; null: none did.
   */
  last_result: string | null;
  /**
   * Its last result, if this run has a result of it; else the first run without.
   */
  silent_since: string;
  /**
   * The days since its last result; if it never had one, since it is silent.
   */
  days: number;
  /**
   * Whether the last result is so old that the badge is grey.
   */
  gone: boolean;
}
/**
 * A reason for which results are stale, and the number of cases that it makes stale.
 */
export interface StaleReason {
  reason: string;
  cases: number;
}
/**
 * An error that no rule of the diagnosis knows.
 */
export interface UndiagnosedError {
  stage: string;
  message: string;
  cases: number;
}
/**
 * The details of some cells. Both tables are Arrow streams as Base64; a column without any value is left out.
 */
export interface CellChunk {
  /**
   * By the cell's id, PLATFORM/TARGET/TOOLCHAIN/OP.DIRECTION.
   */
  cells: {
    [k: string]: CellDetail;
  };
  /**
   * A row for each case: its name, its state and evidence as places in the lists of the overview, and the result that decides it. ``message`` is empty where it is the same as the reason. In ``repeat``, ``{case}`` stands for the id of the case. ``job`` and ``diagnosis`` are JSON.
   */
  cases: string;
  /**
   * A row for each output, in the order of the cases: the place of its ``case`` in the file, the ``output``'s name, and a column for each figure.
   */
  outputs: string;
}
/**
 * One cell. Its cases are the rows of the file's table of cases from ``first`` on, as many as it has planned.
 */
export interface CellDetail {
  cell: Cell;
  first: number;
}
/**
 * The state of a cell: one square of the page.
 */
export interface Cell {
  id: string;
  state:
    | "fail"
    | "error"
    | "fixed"
    | "missing"
    | "flaky"
    | "known"
    | "lowered"
    | "compiled"
    | "told"
    | "held"
    | "pass"
    | "unavailable"
    | "excluded";
  evidence: "planned" | "lowered" | "compiled" | "told" | "held" | "emulated" | "ran";
  /**
   * Why its first stale case is stale; empty if no case is.
   */
  stale: string;
  /**
   * Its cases that an emulator or an interpreter ran.
   */
  emulated: number;
  /**
   * The number of cases by state, worst first.
   */
  cases: {
    [k: string]: number;
  };
  reason: string;
  /**
   * The command that repeats the cell.
   */
  repeat: string;
  /**
   * By dtype, and then by output; the least exact output first.
   */
  noise: {
    [k: string]: {
      [k: string]: Noise;
    };
  };
  package: string;
  platform: string;
  target: string;
  toolchain: string;
  backend: string;
  op: string;
  direction: string;
  planned: number;
  stale_cases: number;
  stage: string;
  diagnosis: Diagnosis | null;
  /**
   * The exact error of a cell that fails as expected.
   */
  error: string;
  accuracy: Accuracy | null;
  artifact: Artifact | null;
  canaries: Canaries | null;
  /**
   * None if no case says that it ran twice.
   */
  determinism: Determinism | null;
  /**
   * How many of the checks of its operator's description its cases had, and which were not asked: one text, or several where its cases differ. Empty where the operator is not described.
   */
  checks: string[];
  /**
   * None if no comparison of a suite was asked.
   */
  comparisons: Comparisons | null;
  timed: Timed[];
  /**
   * More than one of a name where machines differ.
   */
  versions: {
    [k: string]: string[];
  };
  lock: string;
}
/**
 * The noise ratio of an output over all cases of one dtype together.
 */
export interface Noise {
  /**
   * Null where the baseline has no error.
   */
  ratio: number | string | null;
  /**
   * The share of the elements that are not the correctly rounded golden, of an output that is narrower than fp32.
   */
  misrounded: number | string | null;
  /**
   * The same share of the baseline's elements.
   */
  floor_misrounded: number | string | null;
  /**
   * The elements that count: at most 1,000 of each case.
   */
  elements: number;
  cases: number;
  /**
   * The least evidence of these cases: ran or emulated.
   */
  evidence: "planned" | "lowered" | "compiled" | "told" | "held" | "emulated" | "ran";
}
/**
 * The cause and the remedy of an error, and the name of the rule that matched.
 */
export interface Diagnosis {
  rule: string;
  cause: string;
  remedy: string;
  link: string;
  general: boolean;
}
/**
 * The error that came nearest to its budget, over all cases of a cell.
 */
export interface Accuracy {
  case: string;
  output: string;
  /**
   * max_abs or rel_fro.
   */
  figure: string;
  error: number | string;
  limit: number | string;
  /**
   * The error divided by the limit.
   */
  share: number | string;
  /**
   * The output's rel_fro over the baseline's rel_fro, in this case.
   */
  noise_ratio: number | string | null;
}
/**
 * The code that came out of the compilers: its kinds, and the largest of each resource over the cases.
 */
export interface Artifact {
  kinds: string[];
  largest: {
    [k: string]: number | string;
  };
}
/**
 * Say what the suite's own comparisons see of known faults that were put into copies of results.
 */
export interface Comparisons {
  /**
   * The kinds of faults that every line found that was asked about them.
   */
  seen: number;
  /**
   * The kinds of faults that lines were asked about.
   */
  faults: number;
  /**
   * The cases in which a line was asked.
   */
  cases: number;
  /**
   * Those that let most through first.
   */
  lines: ComparingLine[];
}
/**
 * A line of the suite that compares, and what it made of faults in copies of results.
 */
export interface ComparingLine {
  /**
   * The file and the line; and the test's line, where another file compares.
   */
  at: string;
  call: string;
  /**
   * The faults that it found every time.
   */
  seen: number;
  /**
   * The faults that it was asked about.
   */
  faults: number;
  lets_through: string[];
  /**
   * How far it lets one element be off, to a fortieth; inf where any number passes.
   */
  allows: number | string | null;
  /**
   * Whether it compared more than could be asked, and may allow more.
   */
  at_least: boolean;
  /**
   * Four times the noise of the results that it compared.
   */
  budget: number | string | null;
}
/**
 * The times of a case that passed.
 */
export interface Timed {
  run: number;
  baseline: number;
  /**
   * How many times as fast as the baseline the kernel is.
   */
  ratio: number;
  rounds: number;
  case: string;
}
/**
 * The results of the benchmark, and the timed cases of the suite that passed, with all toolchains together.
 */
export interface SpeedData {
  bench: BenchResult[];
  cases: TimedCase[];
}
/**
 * The benchmark of one operator, shape and toolchain on one device.
 */
export interface BenchResult {
  platform: string;
  target: string;
  toolchain: string;
  op: string;
  direction: string;
  case: string;
  outcome: string;
  /**
   * Why it was not timed; empty if it was.
   */
  message: string;
  stale: string;
  device: string;
  commit: string;
  started: string;
  /**
   * Whether this was the quick form, with small shapes and few samples.
   */
  quick: boolean;
  /**
   * What else used the device or lowered its clock meanwhile; empty if nothing.
   */
  disturbed: string;
  time: BenchTime | null;
  /**
   * ``floor_us`` is the time that a copy of as many bytes takes, ``floor_share`` that over the median.
   */
  figures: {
    [k: string]: number | string;
  };
  /**
   * Those timed in the same process on the same device.
   */
  rivals: {
    [k: string]: BenchTime;
  };
  /**
   * The rivals that were not timed, each with the reason.
   */
  absent: {
    [k: string]: string;
  };
  facts: {
    [k: string]: string;
  };
}
/**
 * The time of a run of one contender of the benchmark, in microseconds, and its error.
 */
export interface BenchTime {
  median_us: number;
  /**
   * The 5th percentile of the samples.
   */
  p5_us: number;
  /**
   * The 95th percentile.
   */
  p95_us: number;
  samples: number;
  /**
   * The largest error over its outputs, over the golden's norm.
   */
  rel_fro: number | string | null;
}
/**
 * A timed case of an operator on a target, with the times of every toolchain.
 */
export interface TimedCase {
  platform: string;
  target: string;
  op: string;
  case: string;
  toolchains: {
    [k: string]: Times;
  };
}
/**
 * The seconds that a case took, and those that the baseline took.
 */
export interface Times {
  run: number;
  baseline: number;
  /**
   * How many times as fast as the baseline the kernel is.
   */
  ratio: number;
  rounds: number;
}
/**
 * The agreement of all results that have samples: the tables, and what was left out of them.
 */
export interface AgreementReport {
  tables: AgreementTable[];
  /**
   * Results that could not be compared, and why.
   */
  refused: string[];
  /**
   * What ran and left no samples.
   */
  without: string[];
}
/**
 * All members of one operator in one direction and dtype.
 */
export interface AgreementTable {
  op: string;
  direction: string;
  /**
   * Empty for an operator without such an axis.
   */
  dtype: string;
  members: AgreementMember[];
  groups: number[][];
  pairs: AgreementPair[];
  /**
   * The groups and the odd ones out, in sentences.
   */
  says: string[];
}
/**
 * A toolchain on a target of a platform, or another variant of its kernel than the chosen one.
 */
export interface AgreementMember {
  id: string;
  platform: string;
  target: string;
  toolchain: string;
  variant: string;
  cases: number;
  /**
   * Members of one group agree bit for bit in all cases that they share.
   */
  group: number;
  odd: OddOne | null;
}
/**
 * A member that was the odd one out: in how many cases, in which outputs, and how far from the consensus.
 */
export interface OddOne {
  cases: number;
  outputs: string[];
  /**
   * The largest median distance to the consensus, in ULP.
   */
  ulp: number | string;
  case: string;
  output: string;
}
/**
 * Two members, by their places in the table. ``outputs`` are those in which they differ somewhere.
 */
export interface AgreementPair {
  one: number;
  other: number;
  cases: number;
  /**
   * The cases in which all outputs have the same bits.
   */
  identical: number;
  outputs: {
    [k: string]: Figures;
  };
  /**
   * In the output that differs most; null where none does.
   */
  first: FirstDifference | null;
}
/**
 * The distance of two members in one output, in ULP of its dtype, over all cases that both have.
 */
export interface Figures {
  /**
   * The median over the cases of the median distance.
   */
  median: number | string;
  /**
   * The median over the cases of the 99th percentile.
   */
  p99: number | string;
  /**
   * The largest distance in any case.
   */
  largest: number | string;
}
/**
 * The first sampled position of one output of one case at which two members have other bits.
 */
export interface FirstDifference {
  case: string;
  output: string;
  /**
   * Empty where the outputs differ outside their samples only.
   */
  index: number[];
  one: number | string | null;
  other: number | string | null;
}
/**
 * The results of probes and sweeps; empty for a package that has neither.
 */
export interface Toolchains {
  headline: string;
  changed: string[];
  /**
   * What newer releases will break, a sentence each.
   */
  warnings: string[];
  families: Family[];
  sweeps: SweepView[];
}
/**
 * The probes of one folder, and the environments in which some of them have a verdict.
 */
export interface Family {
  name: string;
  toolchains: string[];
  probes: ProbeLine[];
}
/**
 * A probe, with its verdict in each environment that has one.
 */
export interface ProbeLine {
  id: string;
  asks: string;
  means: string;
  met: string;
  truth: string;
  link: string;
  needs: string[];
  verdicts: {
    [k: string]: ProbeVerdict;
  };
}
/**
 * A probe in one environment.
 */
export interface ProbeVerdict {
  verdict: "changed" | "missing" | "unavailable" | "known" | "works";
  reason: string;
  /**
   * The exact error; empty where the probe passed or was not run.
   */
  error: string;
  diagnosis: Cause;
}
/**
 * The cause and the remedy of an error; all texts are empty where nothing failed.
 */
export interface Cause {
  rule: string;
  cause: string;
  remedy: string;
}
/**
 * A kept sweep.
 */
export interface SweepView {
  title: string;
  package: string;
  created: string;
  case: string;
  attempts: SweptVersion[];
  changes: Change[];
  grid: Grid | null;
  probes: Asked[];
}
/**
 * One attempt of a sweep: a version with its pins, and the stage that it stopped at.
 */
export interface SweptVersion {
  version: string;
  pins: string;
  /**
   * The versions of interest that the installer picked.
   */
  picked: string;
  /**
   * The stage that it did not pass; empty: it passed all.
   */
  stopped: string;
  message: string;
  cause: string;
  remedy: string;
  lock: string[];
  /**
   * Probes by verdict.
   */
  counts: {
    [k: string]: number;
  };
  probes: {
    [k: string]: SweptProbe;
  };
  cases: {
    [k: string]: SweptCase;
  };
}
/**
 * The result of a probe in one attempt of a sweep.
 */
export interface SweptProbe {
  verdict: "changed" | "missing" | "unavailable" | "known" | "works";
  outcome: string;
  stage: string;
  reason: string;
}
/**
 * The result of a case in one attempt of a sweep.
 */
export interface SweptCase {
  state: string;
  evidence: string;
  stage: string;
  reason: string;
  /**
   * A digest of its outputs; empty where nothing ran.
   */
  bits: string;
  /**
   * What its code needs, and its noise ratio.
   */
  figures: {
    [k: string]: number;
  };
}
/**
 * The first version in which cases differ in one thing, and the version that was tried before it.
 */
export interface Change {
  version: string;
  before: string;
  what: string;
  /**
   * What each case was, and what it is.
   */
  cases: {
    /**
     * @minItems 2
     * @maxItems 2
     */
    [k: string]: [unknown, unknown, ...unknown[]];
  };
}
/**
 * Every version together with every version of another package.
 */
export interface Grid {
  beside: string;
  columns: string[];
  cells: {
    [k: string]: {
      [k: string]: Pair;
    };
  };
}
/**
 * The result of one version together with one version of another package.
 */
export interface Pair {
  state: string;
  reason: string;
}
/**
 * A probe of a sweep, and its question.
 */
export interface Asked {
  id: string;
  asks: string;
}
/**
 * The checks, the oldest first.
 */
export interface ChecksData {
  checks: Check[];
}
/**
 * One check on one machine.
 */
export interface Check {
  name: string;
  /**
   * The program and its version.
   */
  program: string;
  sees: string;
  machine: string;
  commit: string;
  /**
   * When it began, UTC.
   */
  when: string;
  /**
   * What else a reader must know: the budget, the seed.
   */
  note: string;
  cells: CheckedCell[];
  findings: Finding[];
  /**
   * Cases that came to no end, and why.
   */
  unfinished: string[];
}
/**
 * The cases of a cell under a check, counted.
 */
export interface CheckedCell {
  cell: string;
  /**
   * Cases that came to an end.
   */
  tried: number;
  /**
   * Cases of these with a finding that nobody has explained.
   */
  found: number;
  /**
   * Cases of these whose findings are all explained.
   */
  explained: number;
  /**
   * Cases that came to no end.
   */
  unfinished: number;
  /**
   * Cases before which the time of the check was over.
   */
  untried: number;
}
/**
 * A fault that a check found in a case.
 */
export interface Finding {
  case: string;
  kernel: string;
  /**
   * FILE:LINE, where the code has lines.
   */
  line: string;
  text: string;
  /**
   * Why it is no fault; empty where nobody has found that out.
   */
  explained: string;
}
/**
 * The transitions, the newest first, the trends, and what worked on each platform, the oldest first.
 */
export interface HistoryData {
  transitions: Transition[];
  trends: Trend[];
  coverage: Coverage[];
}
/**
 * A cell whose state changed from one run to the next, and what else had changed.
 */
export interface Transition {
  cell: string;
  before: string;
  after: string;
  /**
   * The start of the first run with the new state.
   */
  since: string;
  commit: string;
  commit_before: string;
  /**
   * The distributions whose version changed, before and after.
   */
  versions: {
    /**
     * @minItems 2
     * @maxItems 2
     */
    [k: string]: [unknown, unknown, ...unknown[]];
  };
  reason: string;
  /**
   * The commits between the two runs, where the checkout has them.
   */
  between: string;
}
/**
 * The figures of a cell over the runs of one device, the oldest first.
 */
export interface Trend {
  cell: string;
  device: string;
  started: string[];
  commits: string[];
  /**
   * By DTYPE/OUTPUT.
   */
  noise: {
    [k: string]: (number | null)[];
  };
  /**
   * By timed case.
   */
  speed: {
    [k: string]: (number | null)[];
  };
  /**
   * By timed case.
   */
  seconds: {
    [k: string]: (number | null)[];
  };
}
/**
 * The operators with results on a platform at a commit, and those of which a case passed or held.
 */
export interface Coverage {
  platform: string;
  commit: string;
  started: string;
  works: number;
  operators: number;
}
