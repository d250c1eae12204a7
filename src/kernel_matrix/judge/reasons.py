"""The code of a reason and its arguments -> a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Arguments = Sequence[str]  # a number is written with all of its digits


def sentence(code: str, arguments: Arguments) -> str:
    """Return a reason as a sentence; an empty text for the empty code."""
    return _SENTENCES[code](*arguments)


def _excluded_and_tried(reason: str, outcome: str, message: str) -> str:
    return f"{reason} Tried all the same: {outcome}, {' '.join(message.split())[:200]}"


def _other_inputs(digest: str, common: str) -> str:
    if not common:
        return f"refused: other inputs ({digest[:16]}) than as many other results of the same case have"
    return f"refused: other inputs ({digest[:16]}) than most results of the same case have ({common[:16]})"


def _says_and(message: str, doubt: str, *over: str) -> str:
    """Return the message of a result that did not go well, and what else is to be said of it."""
    notes = [sentence(doubt, ())] if doubt else []
    notes += [f"expected until {until}, which is over" for until in over]
    return " ".join([message, *(f"({note})" for note in notes)])


def _went_wrong_before(outcome: str, stale: str, message: str, *attempts: str) -> str:
    """Return what is to be said of a case that passes, and has a stale result that went wrong."""
    text = f"a stale result is {outcome}: {' '.join(message.split())[:200] or 'it does not say why'} ({stale})"
    return "; ".join([sentence("flaky", attempts), text] if attempts else [text])


def _canaries_missed(missed: str, injected: str, *named: str) -> str:
    which = "; ".join(dict.fromkeys(named)) or "it does not say which"
    return f"the comparison of this job missed {_whole(missed)} of {_whole(injected)} injected faults: {which}"


def _canaries_told(caught: str, injected: str, found_caught: str, found_injected: str) -> str:
    return (
        f"this job says that it caught {caught} of {injected} injected faults, and its cases say "
        f"{_whole(found_caught)} of {_whole(found_injected)}"
    )


def _canaries_owed(operator: str, dtype: str, target: str, others: str) -> str:
    more = f" and {others} more" if int(others) else ""
    name = f"{operator}{f' in {dtype}' if dtype else ''} on {target}{more}"
    return f"this job injected no fault into a result of {name}: nothing shows that it compares"


def _other_action(action: str, wanted: str) -> str:
    done = {"run": "it ran", "emulate": "it was emulated"}[action]
    return f"the record says that {done}; by matrix.yaml the action of this toolchain here is '{wanted}'"


def _of_an_output(text: str, numbers: str = "") -> Callable[..., str]:
    """Return a sentence about an output that passed by its record; ``numbers`` are the formats of some arguments."""
    return lambda output, *given: f"the record says that it passed, and of {output} {_filled(text, given, numbers)}"


def _filled(text: str, given: Arguments, numbers: str) -> str:
    """Return a text with its arguments. Of ``numbers`` each is the format of an argument; ``s`` stands for a text."""
    formats = numbers.split() or ["s"] * len(given)
    return text.format(*(a if f == "s" else format(float(a), f) for a, f in zip(given, formats, strict=True)))


def _plain(text: str, numbers: str = "") -> Callable[..., str]:
    return lambda *given: _filled(text, given, numbers)


def _whole(number: str) -> str:
    return f"{float(number):.0f}"


_SENTENCES: dict[str, Callable[..., str]] = {
    "": lambda: "",
    # What the record, matrix.yaml or the machine says.
    "says": lambda text: text,
    "says_and": _says_and,
    # Cases without a result that counts.
    "no_result": _plain("no result came"),
    "other_inputs": _other_inputs,
    "excluded_there": _plain("the machine excluded it, and this matrix does not"),
    "excluded_and_passes": _plain("{} Tried all the same, it passes: take the exclusion out if its reason is gone."),
    "excluded_and_tried": _excluded_and_tried,
    # Cases that pass.
    "told": lambda by, key, at, device, commit: (
        f"{by} says that it ran and passed on {device} at commit {commit[:40] or '(none)'}, and signed this "
        f"on {at[:10]} with the key {key}; no machine of this project has run it"
    ),
    "fixed": _plain("it passes, and is expected to fail: {} Take the expectation out of matrix.yaml."),
    "flaky": lambda *attempts: f"passed after {', '.join(attempts)}",
    "went_wrong_before": _went_wrong_before,
    "complains": _plain("the record says that it passed, and also: {}"),
    "stopped": _plain("the record says that it passed, and that it stopped in the stage '{}'"),
    # Results that prove less than they say.
    "no_artifact": _plain("the record says that it compiled, and holds no artifact"),
    "failed_and_nothing_ran": _plain("the record says that it failed, and does not say that anything ran"),
    "compared_nothing": _plain("the record says that it passed, and compared nothing"),
    "earlier_version": _plain("made by an earlier kernel-matrix: it does not say how its limits were made; run again"),
    # What the code needs, in the words of the distribution that holds it to limits.
    "over_resource": _plain("{}"),
    "owes_resources": _plain("{}"),
    "owes_outputs": lambda *names: f"the record owes the figures of {', '.join(names) or 'at least one output'}",
    "no_canary": _plain("the record compared numbers, and no fault was put in: nothing shows that it compares"),
    "other_elements": _plain("the record says that {} elements were compared; its outputs have {}", "g g"),
    # Outputs whose figures are no proof.
    "unnamed_output": _plain("the record has figures of {}, which is no output of this case by matrix.yaml"),
    "over_growth": _plain("the record says that it passed, and {}.growth is over its limit"),
    "owes_figures": _of_an_output("the record owes {}"),
    "cannot_be": _of_an_output("{} cannot be {}", "s g"),
    "not_finite": _of_an_output("it has {} NaN and {} Inf", ".0f .0f"),
    "errors_disagree": _of_an_output("its max_abs and its rel_fro cannot both be true"),
    "other_limit": _of_an_output("the record's limit of {} is {}, and matrix.yaml makes it {}", "s .6g .6g"),
    "over_limit": _of_an_output("{} {} is over its limit {}", "s .6g .6g"),
    "zeros_pass": _of_an_output("its limit of rel_fro is {}: an output of zeros would pass", ".3g"),
    "unusual_figure": _of_an_output("its {} is {}, and the other results have {}", "s g g"),
    "unusual_floor": lambda output, figure, value, usual: sentence(
        "unusual_times", (output, figure, str(float(value) / float(usual) if float(usual) else float("inf")))
    ),
    "lacks": lambda *names: f"the record owes {', '.join(names)}: the other results have it",
    "samples_cannot_be": _of_an_output("its samples and its max_abs cannot both be true"),
    "unusual_samples": _of_an_output("its samples are further from the other results' samples than max_abs allows"),
    "unusual_times": _of_an_output("its {} is {} times as large as in the other results", "s .3g"),
    # Jobs that cannot have run the case.
    "other_action": _other_action,
    "other_place": lambda name, given, wanted: (
        f"its job has the {name} {given[:80] or '(none)'}; this case has {wanted}"
    ),
    "other_target": lambda targets, target: f"the device of its job runs {targets[:80] or 'no target'}; not {target}",
    # Jobs whose comparison is not trusted.
    "canaries_impossible": _plain("the counts of the injected faults in the records of this job are impossible"),
    "canaries_missed": _canaries_missed,
    "canaries_told": _canaries_told,
    "canaries_owed": _canaries_owed,
}
