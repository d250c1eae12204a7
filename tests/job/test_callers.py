"""Only a comparison that the suite's own code asks counts, and only where a "no" could make a test red."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_suite_canaries import pytest_in
from together import by_day

FILES = {
    "conftest.py": """
import pathlib, sys
sys.path[:0] = [str(pathlib.Path(__file__).parent / one) for one in ("site-packages", "src", "tests")]
import numpy as np, pytest
def close_by_conftest(a, b): np.testing.assert_allclose(a, b, rtol=1e-5)
""",
    "site-packages/lib/__init__.py": """
import numpy as np
def solve(x):
    assert np.allclose(x, x + 0.0)
    np.testing.assert_allclose(x, x + 0.0)
    return x + 0.0
def _assert_finite(x): assert np.array_equal(x, x + 0.0)
def checked(x):
    _assert_finite(x)
    return x + 0.0
def tree_map(function, *trees): return [function(*leaves) for leaves in zip(*trees)]
""",
    "site-packages/lib/testing.py": """
import numpy as np
def assert_close(a, b): np.testing.assert_allclose(a, b, rtol=1e-5)
def run(kernel, x): return kernel(x)
""",
    "src/thing/__init__.py": """
import numpy as np
def kernel(x):
    np.testing.assert_allclose(x, x + 0.0)
    return x + 0.0 if np.allclose(x, x + 0.0) else x
def check_kernel(x):
    np.testing.assert_allclose(x, x + 0.0)
    return x
def assert_kernel(x):
    assert np.allclose(x, x + 0.0)
    return x
class Kernel:
    def check(self, x): np.testing.assert_allclose(x, x + 0.0)
    def run(self, x): self.check(x)
""",
    "src/alone.py": "import numpy as np\ndef check_close(a, b): np.testing.assert_allclose(a, b, rtol=1e-5)\n",
    "src/thing/testing.py": """
import numpy as np
def close(a, b): assert np.allclose(a, b, rtol=1e-5)
""",
    "tests/helper.py": """
import numpy as np
def close(a, b): return np.allclose(a, b, rtol=1e-5)
def named(a, b):
    is_close = np.allclose(a, b, rtol=1e-5)
    return is_close
def settled(x):
    last = x + 1
    while not np.allclose(x, last): x, last = x / 2, x
    return x
""",
}
HEAD = """
import contextlib, functools, unittest
import numpy as np, pytest, hypothesis, helper, lib, thing
from concurrent.futures import ThreadPoolExecutor
from hypothesis import assume, assume as given_that, given, settings, strategies as st
from lib import testing as lib_testing
from numpy.testing import assert_allclose
from thing import testing as thing_testing
x = np.linspace(1, 2, 64)
y = x.copy()
random = settings(max_examples=3, database=None, deadline=None)(given(st.just(0)))
"""
# What does not count: a library's own comparison, the package's own, and what decides whether a test goes on.
NOT_ASKED = {
    "package_that_checks": "def test_it(): assert thing.check_kernel(x).size",
    "or_true": "def test_it(): assert np.allclose(x, y) or True",
    "is_an_answer": "def test_it(): assert np.allclose(x, y) is not None",
    "library": "def test_it(): assert lib.solve(x).size",
    "assume": "@random\ndef test_it(_):\n    assume(np.allclose(x, y))",
    "skip": "def test_it():\n    if not np.allclose(x, y): pytest.skip('it differs')",
    "library_checks_its_input": "def test_it(): assert lib.checked(x).size",
    "package": "def test_it(): assert thing.kernel(x).size",
    "package_in_testing_of_library": "def test_it(): assert lib_testing.run(thing.kernel, x).size",
    "handed_library": "def test_it(): assert lib.tree_map(lib.solve, [x])",
    "assume_by_another_name": "@random\ndef test_it(_):\n    given_that(1 > 0 and np.array_equal(x, y))",
    "assume_of_a_module": "@random\ndef test_it(_):\n    hypothesis.assume(not not np.allclose(x, y))",
    "assume_of_a_name": "@random\ndef test_it(_):\n    same = np.allclose(x, y)\n    assume(same)",
    "assume_of_a_helper": "@random\ndef test_it(_):\n    assume(helper.close(x, y))",
    "assume_of_a_helper_with_a_name": "@random\ndef test_it(_):\n    assume(helper.named(x, y))",
    "assume_of_approx": "@random\ndef test_it(_):\n    assume(x == pytest.approx(y, rel=1e-4))",
    "strategy_filter": "@settings(max_examples=3, database=None)\n"
    "@given(st.just(0).filter(lambda _: np.allclose(x, y)))\ndef test_it(_): pass",
    "strategy_in_the_test": "@settings(max_examples=3, database=None)\n@given(st.data())\n"
    "def test_it(data): data.draw(st.just(0).map(lambda _: assert_allclose(x, y)))",
    "returns": "def test_it():\n    if not np.allclose(x, y):\n        return\n    assert x.size",
    "skips_in_else": "def test_it():\n    if np.allclose(x, y): assert x.size\n    else: pytest.skip('far')",
    "skips_if_it_is": "def test_it():\n    if np.allclose(x, y): pytest.skip('nothing to do')",
    "skips_by_or": "def test_it(): np.allclose(x, y) or pytest.skip('far')",
    "skips_by_a_choice": "def test_it(): pytest.skip('far') if not np.allclose(x, y) else None",
    "skips_by_unittest": "class TestIt(unittest.TestCase):\n    def test_it(self):\n"
    "        if not np.allclose(x, y): self.skipTest('far')",
    "raises_skip": "def test_it():\n    if not np.allclose(x, y): raise unittest.SkipTest('far')",
    "rejects": "@random\ndef test_it(_):\n    if not np.allclose(x, y): hypothesis.reject()",
    "assumes_nothing": "@random\ndef test_it(_):\n    if not np.allclose(x, y): assume(False)",
    "name_then_skip": "def test_it():\n    same = np.allclose(x, y)\n    if not same: pytest.skip('far')",
    "thrown_away": "def test_it(): np.allclose(x, y)",
    "helper_thrown_away": "def test_it(): helper.close(x, y)",
    "name_never_used": "def test_it(): same = np.allclose(x, y)",
    "printed": "def test_it(): print('same', np.allclose(x, y))",
    "returned_to_pytest": "@pytest.mark.filterwarnings('ignore')\ndef test_it(): return np.allclose(x, y)",
    "loop_until_it_settles": "def test_it(): assert helper.settled(np.zeros(8)).size",
    "caught_and_skipped": "def test_it():\n    try: assert_allclose(x, y)\n    except Exception: pytest.skip('far')",
    "caught_and_nothing": "def test_it():\n    try:\n        assert np.allclose(x, y)\n    except Exception: pass",
    "suppressed_around_a_helper": "def test_it():\n"
    "    with contextlib.suppress(AssertionError): thing_testing.close(x, y)",
    "returned_from_a_try": "def same():\n    try: return np.allclose(x, y)\n    except TypeError: return False\n"
    "def test_it():\n    if not same(): pytest.skip('far')",
    "thrown_away_behind_a_condition": "def test_it(): x.size and np.allclose(x, y)",
    "each_is_a_mask": "def test_it(): assert x[np.isclose(x, y)].size",
    "each_is_counted": "def test_it(): assert np.isclose(x, y).sum() > 3",
    "each_thrown_away": "def test_it(): np.isclose(x, y).all()",
    "each_then_skip": "def test_it():\n    if not np.isclose(x, y).all(): pytest.skip('far')",
    "name_of_a_mask": "def test_it():\n    near = np.isclose(x, y)\n    assert x[near].size",
    "package_that_asserts": "def test_it(): assert thing.assert_kernel(x).size",
    "package_with_a_method": "def test_it(): thing.Kernel().check(x)",
    "package_with_a_method_inside": "def test_it(): thing.Kernel().run(x)",
    "true_or": "def test_it(): assert True or not np.allclose(x, y)",
    "same_is_an_answer": "def test_it():\n    same = np.allclose(x, y)\n    assert same is not None",
    "one_of_both": "def test_it(): assert np.allclose(x, y) in (True, False)",
    "if_print": "def test_it():\n    if not np.allclose(x, y):\n        print('far')\n    assert x.size",
    "if_pass": "def test_it():\n    if np.allclose(x, y): pass\n    else: print('far')",
    "for_if_print": "def test_it():\n    for a, b in zip(x, y):\n        if not np.allclose(a, b): print('far')",
    "overwritten": "def test_it():\n    ok = np.allclose(x, y)\n    print(ok)\n    ok = True\n    assert ok",
    "printed_in_a_text": "def test_it():\n    ok = np.allclose(x, y)\n    print(f'ok {ok}')",
    "text_that_nobody_uses": "def test_it(): text = f'{np.allclose(x, y)}'",
    "with_itself": "def test_it(): assert_allclose(x, x)",
    "with_itself_as_answer": "def test_it(): assert np.allclose(x, x)",
    "loop_with_a_break": "def test_it():\n    z = np.zeros(4)\n    while True:\n"
    "        if np.allclose(z, 1): break\n        z = z + 1",
    "returned_at_last": "@pytest.mark.filterwarnings('ignore')\ndef test_it():\n    try: assert_allclose(x, y)\n"
    "    finally: return",
    "expected_to_fail": "@pytest.mark.xfail(strict=False)\ndef test_it(): assert_allclose(x, y)",
    "deleted": "def test_it():\n    same = np.allclose(x, y)\n    del same",
    "if_assert": "def test_it():\n    if np.allclose(x, y): assert x.size",
    "if_asserts": "def test_it():\n    if np.allclose(x, y):\n        np.testing.assert_(x.size)\n"
    "        assert len(x) == 64",
    "if_assert_then_more": "def test_it():\n    if np.allclose(x, y): assert np.isfinite(x).all()\n    assert x.size",
    "else_asserts": "def test_it():\n    if not np.allclose(x, y): print('far')\n    else: assert x.size",
    "if_assert_by_unittest": "class TestIt(unittest.TestCase):\n    def test_it(self):\n"
    "        if np.allclose(x, y): self.assertEqual(len(x), 64)",
    "if_assert_of_a_name": "def test_it():\n    same = np.allclose(x, y)\n    if same: assert len(x)",
    "continue_then_asserts": "def test_it():\n    for a, b in zip(x, y):\n"
    "        if not np.allclose(a, b): continue\n        assert a == b",
    "continue_after_print": "def test_it():\n    for a, b in zip(x, y):\n        if not np.allclose(a, b):\n"
    "            print('far')\n            continue\n        assert abs(a - b) < 1",
    "continue_in_a_while": "def test_it():\n    n = 0\n    while n < 2:\n        n += 1\n"
    "        if not np.allclose(x, y): continue\n        assert x.size",
    "logged": "import logging\ndef test_it(): logging.info('same %s', np.allclose(x, y))",
    "logged_by_a_logger": "import logging\nlog = logging.getLogger('a')\n"
    "def test_it(): log.debug(f'{np.allclose(x, y)}')",
    "logged_if_far": "import logging\nlog = logging.getLogger('a')\ndef test_it():\n"
    "    if not np.allclose(x, y): log.warning('far')",
    "suppressed": "def test_it():\n    with contextlib.suppress(AssertionError): assert_allclose(x, y)",
    "skips_after_a_fault": "def test_it():\n    if not np.allclose(x, y):\n        assert x.size == 1\n"
    "        pytest.skip('far')",
    "and_of_two_names": "def test_it():\n    for n in range(2):\n        both = n and one\n"
    "        one = np.allclose(x, y) or both\n    assert one",
    "or_another": "def test_it(): assert np.allclose(x, y) or np.allclose(x, -y)",
    "loop_that_is_counted": "def test_it():\n    n = 0\n    while True:\n"
    "        if np.allclose(x, y) or n > 9: break\n        n += 1\n    assert n < 9",
    "loop_with_a_break_that_fails": "def test_it():\n    z = np.zeros(4)\n    while True:\n"
    "        if np.allclose(z, 1): break\n        z = z + 1\n        assert z[0] < 3",
    "else_fails": "def test_it():\n    if np.allclose(x, y): assert x.size\n    else: assert x.size == 1",
    "continue_where_it_is": "def test_it():\n    for a, b in zip(x, y):\n        if np.allclose(a, b): continue\n"
    "        assert a == b",
    "fast_path": "def test_it():\n    if np.array_equal(x, y): return\n    assert_allclose(x, y, atol=1)",
    "fast_path_of_a_helper": "def close(a, b):\n    if np.array_equal(a, b): return True\n"
    "    return np.allclose(a, b, rtol=1)\ndef test_it(): assert close(x, y)",
    "fast_path_by_hand": "def close(a, b):\n    if np.array_equal(a, b): return\n    off = abs(a - b)\n"
    "    assert off.max() < 1\ndef test_it(): close(x, y)",
    "fast_path_that_raises": "def close(a, b):\n    if np.array_equal(a, b): return\n"
    "    if abs(a - b).max() > 0.1: raise ValueError\ndef test_it(): close(x, y)",
    "fast_path_of_a_choice": "def close(a, b): return True if np.array_equal(a, b) else np.allclose(a, b, rtol=1)\n"
    "def test_it(): assert close(x, y)",
    "looser_where_it_says_no": "def test_it():\n    if not np.array_equal(x, y): assert_allclose(x, y, atol=1)",
    "looser_in_else": "def test_it():\n    if np.allclose(x, y, rtol=1e-9): pass\n"
    "    else:\n        print('far')\n        assert abs(x - y).max() < 1",
    "or_looser": "def test_it(): assert np.array_equal(x, y) or np.allclose(x, y, rtol=1)",
    "or_looser_by_name": "def test_it():\n    same = np.array_equal(x, y)\n"
    "    assert same or np.allclose(x, y, rtol=1)",
    "or_looser_before": "def test_it():\n    same = np.array_equal(x, y)\n    assert abs(x - y).max() < 1 or same",
    "or_approx": "def test_it(): assert 4.5 == pytest.approx(4.5) or 4.5 == pytest.approx(4.5, rel=1)",
    "not_either": "def test_it():\n    if not np.array_equal(x, y) and not np.allclose(x, y): raise ValueError",
    "any_of_tolerances": "def test_it(): assert any(np.allclose(x, y, rtol=r) for r in (1e-9, 1))",
    "looser_where_it_is_caught": "def test_it():\n    try: assert_allclose(x, y)\n"
    "    except AssertionError: assert_allclose(x, y, rtol=1)",
    "looser_behind_a_try": "def close():\n    try:\n        assert_allclose(x, y)\n        return\n"
    "    except AssertionError: print('far')\n    assert abs(x - y).max() < 1\ndef test_it(): close()",
    "looser_in_rounds": "def test_it():\n    for r in (1e-9, 1):\n        try:\n"
    "            assert_allclose(x, y, rtol=r)\n            break\n"
    "        except AssertionError: continue\n    else: pytest.fail('far')",
    "looser_in_rounds_of_if": "def test_it():\n    for r in (1e-9, 1):\n        if np.allclose(x, y, rtol=r): break\n"
    "    else: pytest.fail('far')",
    "any_of_a_list": "def test_it(): assert any([np.allclose(x, y), x.size])",
    "max_of_a_tuple": "def test_it(): assert max((np.allclose(x, y), True))",
    "any_kept": "def test_it():\n    ok = False\n    for n in range(2): ok |= np.allclose(x, y)\n    assert ok",
    "at_least_none": "def test_it():\n    n = int(np.allclose(x, y))\n    assert n >= 0 and np.allclose(x, y) >= 0",
    "is_a_truth": "def test_it(): assert isinstance(np.allclose(x, y), bool)",
    "always_a_list": "def test_it(): assert [np.allclose(x, y)]",
    "always_a_text": "def test_it(): assert f'{np.allclose(x, y)}'",
    "always_a_method": "def test_it(): assert np.isclose(x, y).all",
    "always_a_tuple": "@pytest.mark.filterwarnings('ignore')\ndef test_it():\n    same = np.allclose(x, y)\n"
    "    assert (same, 'far')",
}
# What counts, also where it looks like the above.
ASKED = {
    "and_before": "def test_it():\n    ok = True\n"
    "    for a, b in zip(x, y): ok = ok and np.allclose(a, b)\n    assert ok",
    "or_fails": "def test_it(): np.allclose(x, y) or pytest.fail('far')",
    "handed_to_a_thread": "def test_it():\n"
    "    with ThreadPoolExecutor(1) as pool: pool.submit(assert_allclose, x, y).result()",
    "all_of_each": "def test_it(): assert np.isclose(x, y).all()",
    "assert": "def test_it(): assert np.allclose(x, y)",
    "helper": "def test_it(): assert helper.close(x, y)",
    "helper_in_random": "@random\ndef test_it(_):\n    assert helper.named(x, y)",
    "conftest": "from conftest import close_by_conftest\ndef test_it(): close_by_conftest(x, y)",
    "testing_of_package": "def test_it(): thing_testing.close(x, y)",
    "testing_of_library": "def test_it(): lib_testing.assert_close(x, y)",
    "handed": "def test_it(): lib.tree_map(assert_allclose, [x], [y])",
    "handed_that_answers": "def test_it(): assert all(lib.tree_map(np.allclose, [x], [y]))",
    "beside_a_failure": "def test_it():\n    with pytest.raises(AssertionError):\n"
    "        assert_allclose(x, y); raise AssertionError",
    "in_a_thread": "def close(): assert_allclose(x, y)\ndef test_it():\n"
    "    with ThreadPoolExecutor(1) as pool: pool.submit(close).result()",
    "raises": "def test_it():\n    if not np.allclose(x, y): raise ValueError('far')",
    "fails": "def test_it():\n    if not np.allclose(x, y): pytest.fail('far')",
    "fails_later": "def test_it():\n    if np.allclose(x, y): return\n    pytest.fail('far')",
    "counted": "def test_it():\n    count = 0\n    for _ in range(2):\n        if not np.allclose(x, y): continue\n"
    "        count += 1\n    assert count == 2",
    "named": "def test_it():\n    same = np.allclose(x, y)\n    print(same)\n    assert same",
    "all_of_them": "def test_it(): assert all(np.allclose(a, b) for a, b in [(x, y)])",
    "assume_is_another": "def assume(same): assert same\ndef test_it(): assume(np.allclose(x, y))",
    "rule": "from hypothesis.stateful import RuleBasedStateMachine, rule\n"
    "class Machine(RuleBasedStateMachine):\n    @rule()\n    def it(self): assert np.allclose(x, y)\n"
    "TestIt = Machine.TestCase\nTestIt.settings = settings(max_examples=1, stateful_step_count=2, database=None)",
    "loop_that_fails": "def test_it():\n    n = 0\n    while not np.allclose(x, y):\n        n += 1\n"
    "        assert n < 3",
    "caught_and_raised": "def test_it():\n    try: assert_allclose(x, y)\n    except AssertionError: raise ValueError",
    "caught_with_more_to_do": "def test_it():\n    same = False\n    try:\n        assert_allclose(x, y)\n"
    "        same = True\n    except AssertionError: pass\n    assert same",
    "stored_where_failures_are_caught": "def test_it():\n    try: same = np.allclose(x, y)\n"
    "    except AssertionError: pytest.skip('far')\n    assert same",
    "kept_where_failures_are_caught": "found = []\ndef keep(): found.append(np.allclose(x, y))\ndef test_it():\n"
    "    with contextlib.suppress(AssertionError): keep()\n    assert found == [True]",
    "caught_by_another": "def test_it():\n    try: assert_allclose(x, y)\n    except ValueError: pytest.skip('odd')",
    "and_behind": "def test_it():\n    ok = True\n    ok = np.allclose(x, y) and ok\n    assert ok",
    "and_of_a_parameter": "def close(ok):\n    ok = ok and np.allclose(x, y)\n    return ok\n"
    "def test_it(): assert close(True)",
    "and_with_unittest": "class TestIt(unittest.TestCase):\n    def test_it(self):\n        ok = True\n"
    "        for a, b in zip(x, y): ok = ok and np.allclose(a, b)\n        self.assertTrue(ok)",
    "and_or_fails": "def test_it(): np.allclose(x, y) and True or pytest.fail('far')",
    "or_fails_in_a_helper": "def close(): return np.allclose(x, y) or pytest.fail('far')\ndef test_it(): close()",
    "or_calls": "def far(): raise ValueError\ndef test_it(): np.allclose(x, y) or far()",
    "mapped_by_threads": "def test_it():\n"
    "    with ThreadPoolExecutor(1) as pool: list(pool.map(assert_allclose, [x], [y]))",
    "cleanup": "class TestIt(unittest.TestCase):\n    def test_it(self): self.addCleanup(assert_allclose, x, y)",
    "finalizer": "def test_it(request): request.addfinalizer(functools.partial(assert_allclose, x, y))",
    "teardown": "class TestIt:\n    def teardown_method(self): assert_allclose(x, y)\n    def test_it(self): pass",
    "all_around_each": "def test_it(): assert np.all(np.isclose(x, y))",
    "all_of_all": "def test_it(): assert all(np.isclose(a, b).all() for a, b in [(x, y)])",
    "name_of_each": "def test_it():\n    near = np.isclose(x, y)\n    assert near.all(), (~near).sum()",
    "each_in_a_helper": "def close(a, b): return bool(np.isclose(a, b).all())\ndef test_it(): assert close(x, y)",
    "each_with_unittest": "class TestIt(unittest.TestCase):\n"
    "    def test_it(self): self.assertTrue(np.isclose(x, y).all())",
    "equiv": "def test_it(): assert np.array_equiv(x, y)",
    "module_alone_that_checks": "import alone\ndef test_it(): alone.check_close(x, y)",
    "and_true": "def test_it(): assert np.allclose(x, y) and True",
    "expected_to_fail_elsewhere": "@pytest.mark.xfail(False, reason='not here')\ndef test_it(): assert_allclose(x, y)",
    "any_that_is_not": "def test_it(): assert not (~np.isclose(x, y)).any()",
    "any_around_what_is_not": "def test_it():\n    near = np.isclose(x, y)\n    assert not np.any(~near)",
    "in_a_text": "def test_it(): exec('assert np.allclose(x, y)', globals())",
    "is_true": "def test_it(): assert np.allclose(x, y) is True",
    "one_of_one": "def test_it(): assert np.allclose(x, y) in (True,)",
    "if_print_then_assert": "def test_it():\n    same = np.allclose(x, y)\n    if not same: print('far')\n"
    "    assert same",
    "if_warn": "import warnings\ndef test_it():\n    if not np.allclose(x, y): warnings.warn('far')",
    "overwritten_by_itself": "def test_it():\n    ok = np.allclose(x, y)\n    ok = ok and x.size\n    assert ok",
    "overwritten_later": "def test_it():\n    ok = np.allclose(x, y)\n    if x.size > 99: ok = False\n    assert ok",
    "overwritten_first": "def test_it():\n    ok = False\n    ok = np.allclose(x, y)\n    assert ok",
    "text_that_is_compared": "def test_it():\n    text = f'{np.allclose(x, y)}'\n    assert text == 'True'",
    "with_another_of_its_name": "def test_it():\n    z = x + 1e-9\n    assert_allclose(z, x)",
    "loop_with_a_break_of_another": "def test_it():\n    n = 0\n    while True:\n        n += 1\n"
    "        if np.allclose(x, y): break\n        if n > 3: raise ValueError",
    "if_stores": "def test_it():\n    n = 0\n    if np.allclose(x, y): n = 1\n    assert n",
    "if_calls": "def test_it():\n    found = []\n    if np.allclose(x, y): found.append(1)\n    assert found",
    "if_asserts_what_changes": "def test_it():\n    found = [1]\n    if np.allclose(x, y): assert found.pop()\n"
    "    assert not found",
    "if_asserts_and_returns": "def test_it():\n    if np.allclose(x, y):\n        assert x.size\n        return\n"
    "    pytest.fail('far')",
    "continue_then_counts": "def test_it():\n    count = 0\n    for a, b in zip(x, y):\n"
    "        if not np.allclose(a, b): continue\n        assert a == b\n        count += 1\n    assert count",
    "continue_or_fails": "def test_it():\n    for a, b in zip(x, y):\n        if np.allclose(a, b): continue\n"
    "        raise ValueError('far')",
    "logged_and_asserted": "import logging\ndef test_it():\n    same = np.allclose(x, y)\n    logging.info(same)\n"
    "    assert same",
    "log_is_another": "class Log:\n    def info(self, same): assert same\nlog = Log()\n"
    "def test_it(): log.info(np.allclose(x, y))",
    "fails_at_last": "def test_it():\n    try: assert_allclose(x, y)\n    finally: print('over')",
    "given_to_a_function": "def test_it(): np.testing.assert_(np.allclose(x, y))",
    "or_before": "def test_it(): assert np.isnan(x).all() or np.allclose(x, y)",
    "fast_path_then_fails": "def test_it():\n    if np.allclose(x, y): return\n    print('far')\n    raise ValueError",
    "fails_with_a_look": "def test_it():\n    if not np.allclose(x, y):\n        far = np.isclose(x, y).sum()\n"
    "        raise ValueError(far)",
    "none_of_a_list": "def test_it(): assert not any([not np.allclose(x, y)])",
    "all_of_a_list": "def test_it(): assert all([np.allclose(x, y), x.size])",
    "all_kept": "def test_it():\n    ok = True\n    ok &= np.allclose(x, y)\n    assert ok",
    "at_least_one": "def test_it(): assert np.allclose(x, y) >= 1",
    "is_one": "def test_it(): assert int(np.allclose(x, y)) == 1",
    "tried_again": "def test_it():\n    for n in range(3):\n        try:\n            assert_allclose(x, y)\n"
    "            break\n        except AssertionError:\n            if n == 2: raise",
    "caught_and_kept": "def test_it():\n    found = []\n    try: assert_allclose(x, y)\n"
    "    except AssertionError as far: found.append(far)\n    assert not found",
    "returns_what_is_off": "def off():\n    if np.allclose(x, y): return None\n    return f'{x - y}'\n"
    "def test_it(): assert off() is None",
    "no_any": "def test_it(): assert not any(not np.allclose(a, b) for a, b in [(x, y)])",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> str:
    folder: Path = tmp_path_factory.mktemp("callers")
    tests = {f"tests/test_of_{name}.py": f"{HEAD}\n{text}\n" for name, text in (NOT_ASKED | ASKED).items()}
    for name, text in (FILES | tests).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return pytest_in(folder, "--kernel-matrix-canaries", "-p", "no:randomly")


def lines_of(printed: str, name: str) -> list[str]:
    return [line for line in printed.splitlines() if f"test_of_{name}.py:" in line and " faults" in line]


@pytest.mark.parametrize("name", by_day(3, NOT_ASKED))
def test_a_comparison_that_is_none_of_the_suites_assertions_is_not_counted(printed, name):
    assert f"{len(NOT_ASKED | ASKED) - 2} passed, 1 skipped, 1 xpassed" in printed, printed[-3000:]
    assert lines_of(printed, name) == []


@pytest.mark.parametrize("name", by_day(3, ASKED))
def test_a_comparison_that_can_make_a_test_red_is_counted(printed, name):
    assert len(lines_of(printed, name)) == 1, printed[-3000:]


BESIDE = {
    "thing/__init__.py": FILES["src/thing/__init__.py"],
    "thing/part.py": "import numpy as np\ndef kernel(x): return x if np.allclose(x, x + 0.0) else None\n",
    "thing/testing.py": FILES["src/thing/testing.py"],
    "helper.py": FILES["tests/helper.py"],
}
OF_BESIDE = """
import sys; sys.path.insert(0, {root!r})
import numpy as np, helper
from thing import kernel, part, testing
x = np.linspace(1, 2, 64)
def test_it():
    assert kernel(x).size
    assert part.kernel(x).size
    assert helper.close(x, x.copy())
    testing.close(x, x.copy())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["test_flat.py", "thing/test_inside.py", "thing/tests/test_below.py"])
def test_a_package_beside_its_tests_is_not_the_suite(tmp_path, place):
    root = tmp_path / "thing"  # whose name says nothing of tests
    for name, text in {**BESIDE, place: OF_BESIDE.format(root=str(root))}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    printed = pytest_in(root, "--kernel-matrix-canaries", "--import-mode=importlib")
    assert "1 passed" in printed, printed
    named = {line.partition(":")[0] for line in printed.splitlines() if " faults" in line and ":" in line}
    assert named == {"thing/testing.py", *(["helper.py"] if place == "test_flat.py" else [])}, printed


@pytest.mark.nightly
def test_the_same_function_of_two_files_is_told_by_its_own_file(tmp_path):
    test = "import numpy as np\nx = np.linspace(1, 2, 64)\n@random\ndef test_it(_): assume(np.allclose(x, x.copy()))\n"
    begin = "from hypothesis import given, settings, strategies as st\n"
    begin += "random = settings(max_examples=2, database=None)(given(st.just(0)))\n"
    (tmp_path / "test_a.py").write_text(f"{begin}from hypothesis import assume\n{test}")
    (tmp_path / "test_b.py").write_text(f"{begin}def assume(same): assert same\n{test}")
    printed = pytest_in(tmp_path, "--kernel-matrix-canaries")
    assert "test_b.py:7 (np.allclose)" in printed, printed
    assert "test_a.py" not in printed
