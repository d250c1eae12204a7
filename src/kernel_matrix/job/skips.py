"""Tell why a test was skipped: by its own word, or because its runner could not run it.

A test that skips itself knows what it lacks. What a runner could not build, find, start or end was not tested, and
nobody has decided that it need not be. The list is one for CTest's tests that a job runs and for files of results.
"""

from __future__ import annotations

import re

# How the reason begins in CTest's words if the test, or whoever wrote it, asked for the skip.
_ASKED_OF_CTEST = ("SKIP_REGULAR_EXPRESSION", "SKIP_RETURN_CODE", "Disabled")
_TO_RUN = r"(?:executable|program|binary|command|required file|test|target|library|shared object|working directory)s?"
_WHO = r"(?:test|process|worker|runner|program|executable|binary|fixture|node|host|job|subprocess)s?"
_BY_RUNNER = re.compile(
    rf"""
    # not built
    ^\W*(?:it|test)?\s*(?:was\ |is\ )?not[ _-]?built\W*$
    | \b{_TO_RUN}\b [^;\n]{{0,80}}
      \b(?:not|never)\ (?:been\ )?(?:built|compiled|linked)\b (?!\ (?:with|for|against|in)\b)
    | \b(?:build|compil(?:e|er|ation|ing)|link(?:er|ing)?)\b [^;\n]{{0,80}} \b(?:failed|failures?|errors?)\b
    | \b(?:failed|unable)\ to\ (?:be\ )?(?:build|built|compile|compiled|link|linked)\b
    | \b(?:does|did|do)(?:\ not|n't)\ (?:build|compile|link)\b
    | \b(?:cannot|could(?:\ not|n't))\ (?:be\ (?:built|compiled|linked)|build|compile|link)\b
    # not found or not started
    | \b(?:unable\ to|failed\ to|cannot|can't|could(?:\ not|n't)|did(?:\ not|n't)|not\ able\ to)
      \ (?:find|locate|open|load|start|launch|execute|run|spawn|change\ to)\b [^;\n]{{0,40}} \b{_TO_RUN}\b
    | \b{_TO_RUN}\b [^;\n]{{0,60}}
      \b(?:not\ found|missing|(?:does|did)\ not\ exist|(?:cannot|could\ not)\ be\ (?:found|started|loaded|run))\b
    | \brequired\ files\ missing\b | \bmissing\ configuration\b | \bno\ such\ file\ or\ directory\b
    | \b(?:no\ such|missing)\ (?:executable|program|binary|command)\b | \bexec\ format\ error\b
    | \b(?:failed|unable)\ to\ start\b | ^\W*bad[ _]command\b | \b(?:did\ not|never)\ start(?:ed)?\b
    # something before it failed
    | \b(?:dependenc(?:y|ies)|prerequisites?|fixtures?|set-?up|test\ dependencies)\b [^;\n]{{0,200}}
      \b(?:failed|fails|failure|crashed|did\ not\ pass)\b
    | \b(?:depends?|depended|depending)\ on\b [^;\n]{{0,120}} \b(?:failed|failing|crashed)\b
    | \bblocked\ by\b [^;\n]{{0,80}} \b(?:fail(?:ed|ing|ure)|crash(?:ed)?)\b
    | \bfailed\ (?:test\ )?(?:dependenc(?:y|ies)|prerequisites?|fixtures?|set-?up)\b
    | \b(?:previous|earlier|prior|preceding|upstream|other|another|dependent)\b [^;\n]{{0,60}}
      \b(?:failed|failures?|errors?|crash(?:ed)?)\b
    | \b(?:not|never)\ (?:run|executed|started)\b [^;\n]{{0,40}} \b(?:because|due\ to|after|since)\b [^;\n]{{0,80}}
      \b(?:fail|error|crash|abort|cancel|interrupt|stop|time)
    | \bfail[ -]?fast\b | \bbail(?:ed|ing)?[ -]?out\b
    | ^\W*(?:cancell?ed|interrupted|aborted|not\ (?:run|executed|started))\W*$
    # no end
    | \btimed[ -]?out\b | ^\W*time-?out\b (?!\ tests?\b) | \btime-?out\ (?:of\ [\d.]+|after|expired|reached|exceeded)\b
    | \b(?:time-?out|time\ ?limit)\b [^;\n]{{0,60}} \b(?:exceeded|reached|expired)\b
    | (?:\b(?:exceeded|reached|(?:ran|went|was|is)\ (?:over|beyond))\b | ^\W*(?:over|beyond)\b)
      [^;\n]{{0,40}} \btime\ ?(?:limit|out)\b
    | \bdeadline\ exceeded\b | \bno\ output\ for\b | \b(?:{_WHO}|it)\ (?:has\ )?hung\b
    # died
    | \b(?:{_WHO}|it)\b [^;\n]{{0,60}}
      \b(?:crashed|died|(?:was\ )?killed|was\ lost|(?:was\ )?aborted|\w+\ unexpectedly|segfaulted)\b
    | \blost\ (?:the\ |its\ )?(?:worker|connection|contact|node|runner|host)\b | \boom[ -]?kill(?:ed|er)?\b
    | \bexit(?:ed)?\ (?:with\ )?(?:code|status|signal)\ -?[1-9] | \bnon-?zero\ exit\b
    | ^\W*(?:crash(?:ed)?|segmentation\ fault|segfault|(?:sub)?process\ aborted|killed|died|(?:died\ of\ )?SIG[A-Z]+)\b
    | \bcore\ dumped\b | \b(?:killed|terminated|died)\ (?:by|with|of|on)\ (?:signal|SIG)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_of_runner(reason: str) -> bool:
    """Return whether the reason of a skip says that the test could not be run to its end."""
    return _BY_RUNNER.search(reason[:2000]) is not None


def is_asked_of_ctest(reason: str) -> bool:
    """Return whether a test that CTest has not run is one that was to be skipped."""
    return reason.startswith(_ASKED_OF_CTEST)
