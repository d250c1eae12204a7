"""A pull request has one comment, which is written anew and says what the change did to which vendor."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from common import few_cells
from judges import write_site
from records import TRITON, all_cases
from serving import serving

from kernel_matrix.adopt import web
from kernel_matrix.adopt.comment import MOST, marker
from kernel_matrix.adopt.comment import comment as made
from kernel_matrix.adopt.sites import read
from kernel_matrix.cli import main
from kernel_matrix.config.plan import plan
from kernel_matrix.store.record import Record

MARKER = marker("matrix")
CUDA, ROCM = "cuda/sm_90/triton/norm.forward", "rocm/gfx942/triton/norm.forward"


def noise(ratio):
    """Return the figures of the output y with this noise ratio."""
    figures = {"misrounded": None, "floor_misrounded": None, "elements": 1000, "cases": 2, "evidence": "ran"}
    return {"bf16": {"y": {"ratio": ratio, **figures}}}


def cell(name, state="pass", evidence="ran", reason="", planned=2, **more):
    return {"id": name, "state": state, "evidence": evidence, "reason": reason, "planned": planned, **more}


def lane(name, state, **by_state):
    return {**dict(zip(("platform", "target", "toolchain"), name.split("/"), strict=True)), "state": state,
            "by_state": by_state or {state: 1}}  # fmt: skip


def document(
    *cells, lanes=(), tier="full", problems=(), vendors=(("cuda", "NVIDIA"), ("rocm", "AMD"))
) -> dict[str, Any]:
    """Return the part of compat.json that is read."""
    platforms = [{"name": name, "title": name, "vendor_title": title, "targets": []} for name, title in vendors]
    run = {"tier": tier, "created": "2026-05-01", "commits": ["c0ffee"]}
    return {
        "schema_version": 2, "run": run, "cells": list(cells),
        "platforms": platforms, "lanes": list(lanes), "problems": list(problems),
    }  # fmt: skip


@pytest.fixture
def site(tmp_path):
    """Write a document as a site, and return its folder."""

    def write(name, *cells, **more):
        (tmp_path / name).mkdir()
        (tmp_path / name / "compat.json").write_text(json.dumps(document(*cells, **more)))
        return tmp_path / name

    return write


@pytest.fixture
def comment(site):
    """Return the lines of the comment about two documents' cells."""

    def make(before, now, **more):
        text = made(read(site("before", *before)), read(site("now", *now, **more)), name="matrix")
        assert text.rstrip().endswith(MARKER)
        return text.splitlines()

    return make


def test_what_became_red_is_said_first_and_for_its_vendor(comment):
    lines = comment([cell(CUDA), cell(ROCM)], [cell(CUDA, "fail", reason="y: max_abs 1 is over 0.1"), cell(ROCM)])
    assert lines[0] == "**With this change 1 cell became red.**"
    nvidia = f"- **NVIDIA**: **1 became red**: `{CUDA}` `pass (ran) → fail (ran)`, `y: max_abs 1 is over 0.1`."
    assert nvidia in lines
    assert "- **AMD**: nothing changed in 1 cell." in lines


def test_nothing_changed_is_said(comment):
    lines = comment([cell(CUDA), cell(ROCM, "fail")], [cell(CUDA), cell(ROCM, "fail")])
    assert lines[0] == "**Nothing changed in 2 cells.**"
    assert not [line for line in lines if " red" in line]


def test_what_was_mended_and_what_is_known_now_are_apart(comment):
    lines = comment([cell(CUDA, "fail"), cell(ROCM, "fail")], [cell(CUDA), cell(ROCM, "known", reason="no bf16")])
    assert lines[0] == "**With this change 1 cell was mended, 1 fails now as matrix.yaml expects.**"
    assert [line for line in lines if line.startswith("- **NVIDIA**: **1 was mended**")]
    assert [line for line in lines if line.startswith("- **AMD**: **1 fails now as matrix.yaml expects**")]


def test_a_vendor_that_lost_its_device_is_not_mended_and_not_as_before(comment):
    gone = cell(CUDA, "unavailable", "planned", "no machine with the label sm_90 took it")
    lines = comment([cell(CUDA, "fail"), cell(ROCM)], [gone, cell(ROCM)])
    assert lines[0] == "**With this change 1 cell no longer ran.**"
    assert any("**1 no longer ran**" in line and "no machine with the label sm_90" in line for line in lines)


def test_a_result_that_is_missing_is_red(comment):
    lines = comment([cell(CUDA)], [cell(CUDA, "missing", "planned", "the job was cancelled")])
    assert lines[0] == "**With this change 1 cell became red.**"


def test_new_cells_numbers_and_other_states_are_said(comment):
    before = [
        cell(CUDA, noise=noise(0.8)),
        cell(ROCM, "compiled", "compiled"),
    ]
    now = [
        cell(CUDA, noise=noise(2.4)),
        *(cell(ROCM), cell("rocm/gfx942/cpp/norm.forward")),
    ]
    lines = comment(before, now)
    assert lines[0] == "**With this change 1 cell is less exact, 1 changed otherwise, 1 is new.**"
    assert any("`bf16 y noise ratio` 0.8 → 2.4, over " in line for line in lines)


def test_a_cell_that_was_asked_for_fewer_cases_is_not_called_mended(comment):
    lines = comment([cell(CUDA, "fail", planned=9)], [cell(CUDA, planned=2)], tier="quick")
    assert lines[0] == "**Nothing changed in 1 cell.**"
    assert "- 1 cell of the earlier run's red cells: fewer of their cases were asked for here." in lines


def test_what_was_not_asked_for_is_not_gone(comment):
    lines = comment([cell(CUDA), cell(ROCM)], [cell(CUDA)])
    assert lines[0] == "**Nothing changed in 1 cell.**"
    assert "- **AMD**: not asked for; the earlier run had 1 cell." in lines


def test_without_one_of_the_pages_nothing_is_claimed(site, tmp_path):
    here = read(site("now", cell(CUDA, "fail")))
    first = made(None, here, name="matrix")
    assert first.startswith("**Nothing is known of what this change did: there is no earlier page to compare with.**\n")
    assert "- **NVIDIA**: 1 of 1 cell red." in first
    assert read(tmp_path / "nowhere") is None
    assert made(here, None, name="matrix").startswith(
        "**Nothing is known of what this change did: its run left no page"
    )


HOSTILE = (
    "`` @everyone <img src=x> [a](https://evil.example) https://evil.example www.evil.example #1\n\n# Approved\n-->"
)


def test_no_text_of_a_result_is_a_mention_a_link_or_html(comment):
    lines = comment(
        [],
        [cell(f"{HOSTILE}/a/b/c.forward", "fail", reason=HOSTILE), cell(CUDA, "fail", reason="\u202e`@me`")],
        vendors=[("cuda", HOSTILE)],
        problems=[HOSTILE],
    )
    outside = re.sub(r"`[^`]+`", "", "\n".join(lines[:-1]))
    assert not re.search(r"[`@<>\[#]|evil|Approved", outside), outside
    assert "@everyone" in "\n".join(lines), "it is shown, as code"


def test_a_comment_is_never_longer_than_github_takes(site):
    names = [f"p{number}/t/{'x' * 100}/op{other}.forward" for number in range(100) for other in range(30)]
    before = read(site("before", *(cell(name) for name in names)))
    now = read(site("now", *(cell(name, "fail", reason="y" * 5000) for name in names)))
    text = made(before, now, name="matrix")
    assert len(text) <= MOST + 100
    assert text.startswith("**With this change 3000 cells became red.**")
    assert "- and 60 more vendors" in text


@pytest.mark.slow
def test_a_site_that_a_report_wrote_is_read(matrix, passing, tmp_path):
    few = few_cells(plan(matrix, "quick"))
    jobs = [job for job in few.jobs if job.platform == "cuda" and job.toolchain in ("reference", "triton-3.7")]
    planned = replace(few, jobs=tuple(jobs))
    good = all_cases(planned, passing)
    lost = [Record(r.case, "unavailable", message="no machine") if r.case.startswith(f"{TRITON}/") else r for r in good]
    for name, records in (("before", good), ("now", lost)):
        write_site(matrix, planned, records, tmp_path / name)
    text = made(read(tmp_path / "before"), read(tmp_path / "now"), name="matrix")
    assert text.startswith("**With this change 1 cell no longer ran.**")
    assert f"- **NVIDIA**: **1 no longer ran**: `{TRITON}` " in text
    assert {cell.state for cell in read(tmp_path / "now").report.cells} >= {"unavailable"}


class Service:
    """A stand-in for GitHub and for a receiver of messages, with one pull request."""

    def __init__(self) -> None:
        self.address = ""
        self.comments: list[dict[str, Any]] = []
        self.statuses: list[int] = []  # of the next requests, before any is answered
        self.message = "no"
        self.lost = False  # whether the answer to the next comment that is made is lost
        self.asked: list[tuple[str, str, Any]] = []
        self.tokens: set[str | None] = set()

    def add(self, body: str, kind: str = "Bot", association: str = "NONE") -> dict[str, Any]:
        number = len(self.comments) + 1
        one = {"id": number, "body": body, "user": {"type": kind}, "author_association": association,
               "html_url": f"https://code.example/c{number}"}  # fmt: skip
        self.comments.append(one)
        return one

    def answer(self, method: str, path: str, data: Any) -> tuple[int, Any]:
        self.asked.append((method, path, data))
        if self.statuses:
            return self.statuses.pop(0), {"message": self.message}
        if method == "POST" and path == "/repos/me/thing/issues/7/comments":
            one = self.add(data["body"])
            lost, self.lost = self.lost, False
            return (502, {}) if lost else (201, one)
        if method == "PATCH" and (match := re.fullmatch(r"/repos/me/thing/issues/comments/(\d+)", path)):
            self.comments[int(match[1]) - 1]["body"] = data["body"]
            return 200, self.comments[int(match[1]) - 1]
        if match := re.fullmatch(r"/repos/me/thing/issues/7/comments\?per_page=100&page=(\d+)", path):
            start = 100 * (int(match[1]) - 1)
            return 200, self.comments[start : start + 100]
        if path.startswith("/repos/me/thing/pulls?"):
            return 200, [{"number": 7, "head": {"sha": "a" * 40}}]
        return (200, None) if path == "/hook" else (404, {"message": "Not Found"})


@pytest.fixture
def service(monkeypatch):
    """Serve the stand-in, as the environment of a workflow names it; no test waits."""
    stand_in = Service()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            stand_in.tokens.add(self.headers["Authorization"])
            length = int(self.headers["Content-Length"] or 0)
            data = json.loads(self.rfile.read(length)) if length else None
            status, content = stand_in.answer(self.command, self.path, data)
            self.send_response(status)
            if status in (301, 307):
                self.send_header("Location", f"{stand_in.address}/elsewhere")
            self.end_headers()
            self.wfile.write(b"ok" if content is None else json.dumps(content).encode())

        do_GET = do_POST = do_PATCH = reply  # noqa: N815

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.address = f"http://127.0.0.1:{server.server_address[1]}"
    for name, value in {
        "GITHUB_API_URL": stand_in.address,
        "GITHUB_REPOSITORY": "me/thing",
        "GITHUB_TOKEN": "a-token",
        "KERNEL_MATRIX_WEBHOOK": f"{stand_in.address}/hook",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(web, "_WAITS", (0, 0, 0))
    with serving(server):
        yield stand_in


@pytest.fixture
def post(site, service, capsys):
    """Post the comment on two sites, and return (exit status, standard output, standard error)."""
    folders = site("before", cell(CUDA)), site("now", cell(CUDA, "fail"))

    def run(*words):
        status = main(["ci", "comment", *map(str, folders), "--post", *(words or ("--number", "7"))])
        return status, *capsys.readouterr()

    return run


def test_a_comment_is_made_once_and_then_written_anew(post, service, tmp_path):
    service.add("a person's words", "User")
    assert post() == (0, "comment: https://code.example/c2 was made\n", "")
    assert service.tokens == {"Bearer a-token"}
    (tmp_path / "now" / "compat.json").write_text(json.dumps(document(cell(CUDA))))
    assert post()[1] == "comment: https://code.example/c2 was written anew\n"
    assert post()[1] == "comment: https://code.example/c2 is as it was\n"
    assert [one["body"].partition("\n")[0] for one in service.comments] == [
        "a person's words",
        "**Nothing changed in 1 cell.**",
    ]


def test_the_comment_is_found_behind_many_and_a_stranger_s_is_left_alone(post, service):
    for _ in range(120):
        service.add("words", "User")
    stranger = service.add(f"mine\n{MARKER}", "User")
    ours = service.add(f"old\n\n{MARKER}\n")
    assert post()[1] == f"comment: {ours['html_url']} was written anew\n"
    assert stranger["body"] == f"mine\n{MARKER}"
    assert len(service.comments) == 122


def test_each_name_has_a_comment_of_its_own(post, service):
    post("--number", "7", "--name", "site-cpu")
    post("--number", "7", "--name", "site-cuda")
    assert len(service.comments) == 2


def test_a_service_that_is_out_of_order_is_asked_again(post, service):
    service.statuses = [502, 429, 503]
    assert post()[0] == 0
    assert len(service.comments) == 1


def test_a_comment_whose_answer_was_lost_is_not_made_twice(post, service):
    service.lost = True
    assert post()[0] == 0
    assert len(service.comments) == 1


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "Bad credentials", "GITHUB_TOKEN has ended, or is of another server (HTTP 401: Bad credentials)."),
        (403, "Resource not accessible by integration", "give the job 'pull-requests: write'"),
        (404, "Not Found", "pull request 7: there is no such pull request in this repository"),
        (422, "Validation Failed", "GitHub refuses this (HTTP 422: Validation Failed)."),
        (301, "Moved", "GitHub refuses this (HTTP 301: "),
    ],
)
def test_a_refusal_is_one_sentence_and_is_not_repeated(post, service, status, message, words):
    service.statuses, service.message = [status], message
    code, out, err = post()
    assert (code, out) == (2, "")
    assert words in err
    assert "a-token" not in err
    assert len(err.splitlines()) == len(service.asked) == 1


@pytest.mark.parametrize("statuses", [[500] * 4, [403] * 4])
def test_a_service_that_stays_out_of_order_is_given_up(post, service, statuses):
    service.statuses, service.message = statuses, "You have exceeded a secondary rate limit"
    assert post()[0] == 2
    assert len(service.asked) == 4


def test_an_answer_of_another_form_is_bad_input(post, service, monkeypatch):
    monkeypatch.setattr(service, "answer", lambda *_: (200, {"a": 1}))
    code, _, err = post()
    assert (code, "Is GITHUB_API_URL right?" in err) == (2, True)


def test_the_pull_request_is_found_by_its_branch_if_the_commit_is_its_newest(post, service):
    assert post("--head", "me:a&b", "--commit", "a" * 40)[0] == 0
    assert "head=me%3Aa%26b" in service.asked[0][1]
    assert post("--head", "me:a", "--commit", "b" * 40)[1].startswith("comment: no open pull request has this commit")
    assert len(service.comments) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--post: name the pull request"),
        (("--head", "me:a"), "--post: name the pull request"),
        (("--number", "7", "--page", "javascript:x"), "this is no address"),
        (("--number", "7", "--page", "https://a.example/) @me"), "this is no address"),
        (("--number", "7", "--name", "a -->"), "make a name"),
    ],
)
def test_options_that_do_not_fit_are_bad_input(site, service, capsys, words, message):
    assert main(["ci", "comment", "before", "now", "--post", *words]) == 2
    assert message in capsys.readouterr().err
    assert service.asked == []


@pytest.mark.parametrize("name", ["GITHUB_REPOSITORY", "GITHUB_TOKEN"])
def test_outside_of_a_workflow_the_missing_variable_is_named(post, service, monkeypatch, name):
    monkeypatch.delenv(name)
    code, _, err = post()
    assert (code, f"{name} is not set" in err) == (2, True)


def test_without_post_the_comment_is_printed_and_nobody_is_asked(site, service, capsys, tmp_path):
    folders = str(site("before", cell(CUDA))), str(site("now", cell(CUDA)))
    words = ["--page", "https://code.example/run/1", "--write", str(tmp_path / "comment.md")]
    assert main(["ci", "comment", *folders, *words]) == 0
    printed = capsys.readouterr().out
    assert "[Its run](https://code.example/run/1) has the whole page." in printed
    assert (tmp_path / "comment.md").read_text() == printed
    assert service.asked == []


LANES = {
    "red": ("cuda/sm_90/triton", "pass", "fail"),
    "back": ("rocm/gfx942/triton", "error", "pass"),
    "gone": ("rocm/gfx90a/triton", "missing", "unavailable"),
}


@pytest.fixture
def notify(site, capsys):
    """Run the command on the lanes before and now, and return (exit status, standard output, standard error)."""

    def run(before, now):
        folders = site("before", lanes=before), site("now", lanes=now)
        status = main(["ci", "notify", *map(str, folders), "--page", "https://code.example/page"])
        return status, *capsys.readouterr()

    return run


def both(names):
    chosen = [LANES[name] for name in names]
    return [lane(name, was) for name, was, _ in chosen], [lane(name, is_) for name, _, is_ in chosen]


def test_lanes_that_turned_red_or_came_back_are_one_document(notify, service):
    assert notify(*both(LANES))[0] == 0
    [(method, path, sent)] = service.asked
    assert (method, path, sent["page"]) == ("POST", "/hook", "https://code.example/page")
    assert sent["lanes"] == [
        {"what": what, "lane": name, "before": was, "now": is_} for what, (name, was, is_) in LANES.items()
    ]
    assert sent["text"].startswith(
        "kernel-matrix: 1 lane turned red, 1 lane came back, 1 lane was red and has no result"
    )
    assert service.tokens == {None}, "the token is GitHub's alone"


def test_a_new_lane_that_is_red_turned_red(notify, service):
    notify([], [lane("cuda/sm_90/new", "fail")])
    assert service.asked[0][2]["lanes"][0]["before"] == "not planned"


def test_a_lane_of_which_some_cells_work_again_came_back(notify, service):
    notify([lane("cuda/a/b", "fail")], [lane("cuda/a/b", "unavailable", unavailable=2, **{"pass": 3})])
    assert service.asked[0][2]["lanes"][0]["what"] == "back"


def test_where_nothing_turned_nobody_is_told(notify, service):
    same = [lane("cuda/a/b", "fail"), lane("rocm/a/b", "pass")]
    assert notify(same, [lane("cuda/a/b", "error"), lane("rocm/a/b", "compiled")])[0] == 0
    assert service.asked == []


@pytest.mark.parametrize("statuses", [[500] * 4, [404], [302]])
def test_a_receiver_that_is_down_is_a_warning_without_its_address(notify, service, statuses):
    service.statuses = list(statuses)
    status, _, err = notify(*both(["red"]))
    assert status == 0
    assert err.startswith(
        "kernel-matrix: warning: the receiver of KERNEL_MATRIX_WEBHOOK did not take the message: HTTP"
    )
    assert "127.0.0.1" not in err
    assert len(service.asked) == len(statuses)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "secret-words", "http://127.0.0.1:1/secret words"])
def test_an_address_of_no_use_is_a_warning_without_it(notify, service, monkeypatch, address):
    monkeypatch.setenv("KERNEL_MATRIX_WEBHOOK", address)
    status, _, err = notify(*both(["red"]))
    assert (status, "warning" in err, "secret" in err, "passwd" in err) == (0, True, False, False)


def test_without_an_address_or_an_earlier_page_nobody_is_told(notify, service, monkeypatch, tmp_path, capsys):
    assert main(["ci", "notify", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "has no page: nothing is compared" in capsys.readouterr().out
    monkeypatch.delenv("KERNEL_MATRIX_WEBHOOK")
    assert "is not set: nobody is told" in notify(*both(["red"]))[1]
    assert service.asked == []


def test_names_are_no_mention_in_a_chat(notify, service):
    notify([], [lane("a/<!channel>/b&c", "fail")])
    assert "<" not in service.asked[0][2]["text"]
    assert "&lt;!channel&gt;/b&amp;c" in service.asked[0][2]["text"]
