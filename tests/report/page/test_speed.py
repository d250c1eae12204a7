"""The speed view: what the benchmark measured, with its spread, and nothing that was not timed."""

from __future__ import annotations

from browsing import PASSING

ROWS = "[data-test=bench-table] tbody tr"


def test_times_have_their_spread_and_stand_against_rivals_and_the_floor(tab):
    page = tab.open("#speed?q=toolchain:triton-3.7")
    text = page.inner_text(f"{ROWS} >> nth=0")
    for part in ("160 µs", "158 µs to 165 µs", "86 %", "20.0 ×", "5.63 ×", "4.69 ×", "3.50 s"):
        assert part.replace("3.50 s", "3.5 s") in text, (part, text)
    assert "4272 GB/s" in page.inner_text("[data-test=bench]")
    assert page.query_selector("[data-test=bench] figure svg") is not None


def test_a_kernel_that_is_wrong_has_no_time(tab):
    page = tab.open("#speed")
    rows = page.eval_on_selector_all(ROWS, "all => all.map(row => row.innerText)")
    (wrong,) = [row for row in rows if "mhc_post" in row]
    assert "not timed: fail" in wrong
    assert "rel_fro 0.3" in wrong
    assert "µs" not in wrong


def test_devices_are_never_in_one_table(tab):
    page = tab.open("#speed")
    devices = page.eval_on_selector_all("[data-device]", "all => all.map(part => part.dataset.device)")
    assert sorted(devices) == ["AMD EPYC (2 threads)", "NVIDIA H200"]
    for part in page.query_selector_all("[data-device]"):
        other = [name for name in devices if name != part.get_attribute("data-device")]
        assert not any(name in part.inner_text() for name in other)


def test_what_disturbed_a_time_is_said(tab):
    page = tab.open("#speed")
    assert "1 of 3 were disturbed: the clock was lowered." in page.inner_text("[data-test=disturbed]")


def test_a_layer_has_no_square_and_is_found_all_the_same(tab):
    page = tab.open("#speed?q=layer")
    rows = page.eval_on_selector_all(ROWS, "all => all.map(row => row.innerText)")
    assert len(rows) == 1
    assert rows[0].startswith("layer step")


def test_the_times_of_calls_are_named_as_what_they_are(tab):
    page = tab.open("#speed")
    text = page.inner_text("[data-test=speed]")
    assert "Calls of the suite against eager PyTorch" in text
    assert "time on the host of single calls at the small shapes" in text
    assert page.query_selector("[data-test=speed-table]") is not None


def test_the_times_of_the_benchmark_change_over_the_runs(tab):
    page = tab.open("#speed")
    text = page.inner_text("[data-test=bench-trends]")
    assert "cuda/sm_90/triton-3.7/mhc_pre.forward" in text
    assert page.query_selector("[data-test=bench-trends] svg") is not None


def test_the_panel_of_a_cell_has_times_with_their_spread(tab):
    tab.open()
    tab.press_square(PASSING)
    text = tab.page.inner_text("[data-test=bench-of-cell]")
    assert "63.2 ms to 66 ms" in text
    assert "eager" in text
    assert "of the memory floor".upper() in text.upper()
