"""The workflow files keep the rules for safe machines, and a broken rule is found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from loops import at_least
from ruamel.yaml import YAML

from kernel_matrix.ci import services
from kernel_matrix.ci.event_plan import make_row_plan
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "ci"))

import pipeline_policy  # noqa: E402
import workflow_policy  # noqa: E402
from workflow_policy import SAME_REPOSITORY, documented, main, of_other_services, read, violations  # noqa: E402

PULL = ".github/workflows/pull-request.yml"
MATRIX = ".github/workflows/matrix.yml"
MAIN = ".github/workflows/main.yml"
NIGHTLY = ".github/workflows/nightly.yml"
HAND = ".github/workflows/by-hand.yml"
AFTER = ".github/workflows/after.yml"
PUBLISH = ".github/workflows/publish.yml"
RELEASE = ".github/workflows/release.yml"
ROW = ".github/actions/row/action.yml"

CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
NO_TOKEN = "          persist-credentials: false\n"
GUARD = f"machines: ${{{{ {SAME_REPOSITORY} && github.event.pull_request.user.type != 'Bot' }}}}"

# the file, the text that is there, the text that breaks a rule, and a part of the message.
MUTATIONS = {
    "a fork gets machines": (PULL, GUARD, "machines: true", "a fork's pull request gets here"),
    "machines if anybody says so": (PULL, GUARD, f"{GUARD[:-3]} || github.actor == 'me' }}}}", "a fork's pull request"),
    "machines by label": (PULL, GUARD, "machines: ${{ contains(github.event.pull_request.labels.*.name, 'gpu') }}", "a fork"),
    "machines unless told": (MATRIX, "inputs.machines && fromJSON", "fromJSON", "a fork's pull request gets here"),
    "machines or rows": (MATRIX, "inputs.machines && fromJSON", "inputs.machines || fromJSON", "a fork's pull request"),
    "lint on our machine": (PULL, "name: lint\n    runs-on: ubuntu-24.04", "name: lint\n    runs-on: [self-hosted, linux]", "a fork"),
    "the plan picks the hosted label": (MATRIX, "runs-on: ubuntu-24.04\n    timeout-minutes: ${{ matrix.row.minutes }}", "runs-on: ${{ matrix.row.labels }}\n    timeout-minutes: ${{ matrix.row.minutes }}", "a fork"),
    "pull_request_target": (PULL, "  pull_request:\n", "  pull_request_target:\n", "'pull_request_target' runs with"),
    "issue_comment": (PULL, "on:\n", "on:\n  issue_comment:\n", "'issue_comment' runs with"),
    "workflow_run": (MAIN, "on:\n", "on:\n  workflow_run:\n    workflows: [pull request]\n", "'workflow_run' runs with"),
    "every branch is main": (MAIN, "    branches: [main]\n", "    branches: ['**']\n", "name the branch main"),
    "default permissions": (MATRIX, "permissions: {}\n", "", "permissions: write 'permissions: {}' at the top"),
    "write all": (PULL, "    permissions:\n      contents: read # to check out\n    steps", "    permissions: write-all\n    steps", "say each one"),
    "a job that writes": (PULL, "contents: read", "contents: write", "nothing here may write ['contents']"),
    "a pull request that publishes": (PULL, "      actions: read", "      pages: write\n      actions: read", "only what runs on main publishes"),
    "a publisher that runs code": (PUBLISH, "    steps:\n", "    steps:\n      - run: ci/kernel-matrix report\n", "a job that may write runs no code"),
    "a token on our machine": (MATRIX, "runs-on: ${{ matrix.row.labels }}\n    timeout-minutes: ${{ matrix.row.minutes }}\n    permissions:\n", "runs-on: ${{ matrix.row.labels }}\n    timeout-minutes: ${{ matrix.row.minutes }}\n    permissions:\n      actions: read\n", "needs no permission but"),
    "a token in a row": (ROW, "      env:\n", "      env:\n        GH_TOKEN: ${{ github.token }}\n", "no token on the project's own machines"),
    "a tag for a pin": (MATRIX, CHECKOUT, "actions/checkout@v7", "pin it by the whole commit id"),
    "a pin without its version": (MATRIX, CHECKOUT, CHECKOUT.partition(" ")[0], "say the version"),
    "the token in the checkout": (MATRIX, NO_TOKEN, "", "leaves the token in the checkout"),
    "an expression in a script": (HAND, 'approved for the project\'s own machines - $COMMIT', "${{ inputs.commit }}", "an expression in a script"),
    "a script in an input": (ROW, "        path: build\n", "        path: build\n        script: x\n", "no scripts in an action's inputs"),
    "approval is left out": (HAND, "    needs: approval\n", "", "without the environment 'own-machines'"),
    "approval of anything": (HAND, "    needs: guard\n", "", "nothing before it insists on a whole commit id"),
    "approval may fail": (HAND, "    needs: approval\n", "    needs: approval\n    if: ${{ always() }}\n", "without the environment"),
    "a branch for a commit": (HAND, "^[0-9a-f]{40}$", "^[a-z0-9]+$", "nothing before it insists"),
    "a failure is hidden": (ROW, '--row "$ROW"', '--row "$ROW" || true', "'|| true' hides failures"),
    "a red job goes on": (MATRIX, "    needs: plan\n", "    needs: plan\n    continue-on-error: true\n", "hides failures"),
    "tests are ignored": (PULL, "ci/nox -s tests", "ci/nox -s tests -- --ignore tests/x.py", "'--ignore' hides failures"),
    "the Docker socket": (ROW, "      shell: bash\n", "      shell: bash # -v /var/run/docker.sock\n", "the Docker socket"),
    "a container of the workflow": (MATRIX, "    needs: plan\n", "    needs: plan\n    container: x\n", "'container'"),
    "a secret": (ROW, "      env:\n", "      env:\n        KEY: ${{ secrets.KEY }}\n", "no job here needs a secret"),
    "all secrets": (MAIN, "    with:\n", "    secrets: inherit\n    with:\n", "no job here needs a secret"),
    "a cache": (MATRIX, '          python-version: "3.12"\n', '          python-version: "3.12"\n          cache: pip\n', "a cache that one run writes"),
    "no time limit": (PULL, "    timeout-minutes: 20\n", "", "timeout-minutes is missing"),
    "no concurrency": (NIGHTLY, "concurrency:\n  group: nightly\n  cancel-in-progress: false\n", "", "concurrency is missing"),
    "one red row cancels the rest": (MATRIX, "fail-fast: false", "fail-fast: true", "must not cancel the others"),
    "a row of its own": (MATRIX, "- uses: ./.github/actions/row", "- uses: ./.github/actions/other", "a row is run by"),
    "a row that says it is an image": (MATRIX, "- uses: ./.github/actions/row", "- run: ci/kernel-matrix ci image --platform x", "a row is run by"),
    "another command than people's": (ROW, 'ci/kernel-matrix run --platform "$PLATFORM"', "pytest", "the command that a person types"),
    "only green results travel": (ROW, "      if: ${{ always() }}\n", "", "results are sent also when the row is red"),
    "what a cancelled row has is lost": (ROW, "if: ${{ always() }}", "if: ${{ !cancelled() }}", "or was cancelled"),
    "the report waits for a dead machine": (MATRIX, "  report:\n    name: report\n    needs: [plan, image]", "  report:\n    name: report\n    needs: [plan, own]", "must not need the rows"),
    "the report waits for an image on a machine that may not come": (MATRIX, "        image: ${{ fromJSON(needs.plan.outputs.rows).images }}\n    runs-on: ubuntu-24.04", "        image: ${{ fromJSON(needs.plan.outputs.rows).images }}\n    runs-on: big", "must not need the rows"),
    "the report is made of good news": (MATRIX, "if: ${{ always() }}", "if: ${{ success() }}", "report: where it is skipped"),
    "the report is skipped with the plan": (MATRIX, "if: ${{ always() }}", "if: ${{ !cancelled() && needs.plan.result == 'success' }}", "report: where it is skipped"),
    "the report is skipped in silence": (MATRIX, "    if: ${{ always() }}\n", "", "report: where what it needs fails"),
    "the report is skipped where nothing is planned": (MATRIX, "if: ${{ always() }}", "if: ${{ always() && fromJSON(needs.plan.outputs.rows).hosted[0] }}", "report: where it is skipped"),
    "a plan that was cancelled is good enough": (MATRIX, "needs.plan.result != 'success' }}", "needs.plan.result == 'failure' }}", "report: it goes on"),
    "a plan that fails is told and passes": (MATRIX, "          exit 1\n        env:\n          PLAN", "        env:\n          PLAN", "report: it goes on"),
    "the plan is asked about too late": (MATRIX, "      - name: Fail unless the plan succeeded\n", "      - run: \"true\"\n      - name: Fail unless the plan succeeded\n", "report: it goes on"),
    "the report waits for one more job and does not ask about it": (MATRIX, "  report:\n    name: report\n    needs: [plan, image]", "  report:\n    name: report\n    needs: [plan, image, check]", "report: it goes on"),
    "a draft is not tested": (PULL, "    uses: ./.github/workflows/matrix.yml\n", "    if: ${{ !github.event.pull_request.draft }}\n    uses: ./.github/workflows/matrix.yml\n", "matrix: where it is skipped"),
    "the matrix waits for lint": (PULL, "    uses: ./.github/workflows/matrix.yml\n", "    needs: lint\n    uses: ./.github/workflows/matrix.yml\n", "matrix: where what it needs fails"),
    "the tests wait for lint": (PULL, "    name: tests\n", "    name: tests\n    needs: lint\n", "tests: where what it needs fails"),
    "lint by label": (PULL, "    name: lint\n", "    name: lint\n    if: contains(github.event.pull_request.labels.*.name, 'lint')\n", "lint: where it is skipped"),
    "lint of what a list names": (PULL, "    name: lint\n", "    name: lint\n    strategy: { fail-fast: false, matrix: { part: [] } }\n", "lint: where it is skipped"),
    "the report asks nobody": (MATRIX, "--statuses build/jobs.json ", "", "has to ask what became of the jobs"),
    "a release of any branch": (RELEASE, '    tags: ["v*"]\n', '    tags: ["*"]\n', "the tags of versions"),
    "a release that nobody approves": (RELEASE, "    environment:\n      name: release\n", "", "runs no code of the repository"),
    "a release of what a job with rights has checked out": (RELEASE, "- uses: actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1\n        with:\n", "- uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1\n        with:\n          persist-credentials: false\n", "runs no code of the repository"),
    "somebody else's workflow": (MAIN, "./.github/workflows/publish.yml", "a/b/.github/workflows/c.yml@main", "lies in this repository"),
    "after a run, and at a push": (AFTER, "on:\n", "on:\n  push:\n    branches: [main]\n", "'workflow_run' runs with"),
    "after a run, a change's code": (AFTER, NO_TOKEN, f"{NO_TOKEN}          ref: ${{{{ github.event.workflow_run.head_sha }}}}\n", "main's newest commit and no other"),
    "after a run, a fork's code": (AFTER, NO_TOKEN, f"{NO_TOKEN}          repository: me/x\n", "main's newest commit and no other"),
    "after a run, an artifact in place of code": (AFTER, "path: build/plan", "path: .", "could replace code"),
    "after a run, an artifact beside build": (AFTER, "path: build/plan", "path: build/../ci", "could replace code"),
    "after a run, another command": (AFTER, "run: ci/kernel-matrix ci comment", "run: bash", "reads what a run left"),
    "after a run, a second command": (AFTER, "ci notify build", "ci notify build; sh build", "reads what a run left"),
    "after a run, everything is written": (AFTER, "pull-requests: write", "checks: write", "nothing here may write"),
    "after a run, pages": (AFTER, "pull-requests: write", "pages: write", "nothing here may write"),
    "after a run, a secret beside a change": (AFTER, "          GITHUB_TOKEN: ${{ github.token }}\n", "          KEY: ${{ secrets.KEY }}\n", "comes to no secret"),
    "after a run, a secret after any run": (AFTER, " && github.event.workflow_run.head_branch == github.event.repository.default_branch", "", "say whose runs it follows"),
    "after a run, on our machine": (AFTER, "runs-on: ubuntu-24.04", "runs-on: [self-hosted, linux]", "on a hosted machine"),
    "a pull request that comments": (PULL, "contents: read", "pull-requests: write", "nothing here may write ['pull-requests']"),
    "an input that is not there": (MAIN, "      machines: true\n", "      machine: true\n", "is given"),
}  # fmt: skip


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return read(ROOT)


@pytest.fixture(scope="module", autouse=True)
def each_text_is_parsed_once():
    """Keep the content of each workflow: a broken rule needs another text of one of them only."""
    parsed = cache(YAML(typ="safe", pure=True).load)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workflow_policy, "YAML", lambda **_: SimpleNamespace(load=parsed))
        yield


@pytest.fixture(scope="module")
def matrix():
    return load(ROOT / "matrix.yaml")


def test_the_workflows_keep_every_rule(files, capsys):
    assert violations(files) == []
    assert main([str(ROOT)]) == 0
    assert capsys.readouterr().out == "the workflow files keep every rule\n"


def test_a_broken_rule_ends_with_1_and_a_folder_without_workflows_with_2(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "there are no workflow files" in capsys.readouterr().err
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "new.yml").write_text("name: x\non: push\njobs: {}\n")
    assert main([str(tmp_path)]) == 1
    assert ".github/workflows/new.yml: on: push: name the branch main" in capsys.readouterr().err


@pytest.mark.parametrize("branch", ["main", "master", "trunk", "develop", "v2.x"])
def test_the_main_branch_is_the_repository_s_own(tmp_path, capsys, branch):
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q", "-b", branch], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    subprocess.run([*git, "update-ref", f"refs/remotes/origin/{branch}", "HEAD"], check=True)
    subprocess.run([*git, "symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{branch}"], check=True)
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    text = (
        "name: x\non: {{ push: {{ branches: ['{}'] }} }}\npermissions: {{}}\nconcurrency: {{ group: x }}\njobs: {{}}\n"
    )
    (folder / "new.yml").write_text(text.format(branch))
    assert main([str(tmp_path)]) == 0
    for other in {"main", "master", "**", "v*", f"{branch}, x"} - {branch}:
        (folder / "new.yml").write_text(text.format(other))
        assert main([str(tmp_path)]) == 1, other
        assert f"name the branch {branch}" in capsys.readouterr().err


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_workflow_that_breaks_a_rule_is_caught(files, name):
    path, old, new, words = MUTATIONS[name]
    assert old in files[path], "the table no longer fits the file"
    found = violations({**files, path: files[path].replace(old, new, 1)})
    assert any(words in sentence for sentence in found), found


def test_a_new_workflow_of_a_pull_request_is_held_to_the_same_rules(files):
    new = "name: x\non: pull_request\njobs:\n  a:\n    runs-on: [self-hosted, gfx942]\n    steps:\n      - run: make\n"
    found = "\n".join(violations({**files, ".github/workflows/new.yml": new}))
    for words in ("a fork's pull request gets here", "permissions: {}", "concurrency is missing", "timeout-minutes"):
        assert words in found


def test_the_workflows_and_pipelines_of_the_docs_keep_the_rules():
    assert {place.partition(":")[0] for place in documented(ROOT)} == {"docs/how-to/github-action.md"}
    assert violations(documented(ROOT)) == []
    assert of_other_services(ROOT) == []


def test_an_example_of_the_docs_that_could_be_skipped_is_named(tmp_path, capsys):
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "publish.yml").write_text((ROOT / PUBLISH).read_text())
    page = (ROOT / "docs" / "how-to" / "github-action.md").read_text()
    runners = (ROOT / "docs" / "runners.md").read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(page.replace("  matrix:\n", "  matrix:\n    if: github.actor != 'x'\n", 1))
    (tmp_path / "docs" / "b.md").write_text(runners.replace("    strategy: depend\n", "", 1))
    assert main([str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "docs/a.md: example 1: docs/a.md: example 1: matrix: where it is skipped it counts as a success" in said
    assert "docs/b.md: example 1: matrix: trigger: it is green before its child has ended" in said


@pytest.mark.parametrize("service", ["gitlab", "buildkite"])
def test_what_is_rendered_for_other_services_hides_no_failure(matrix, service):
    rows = make_row_plan(matrix, plan(matrix, "quick"), event="pull_request")
    at_least(10, rows.rows)
    assert pipeline_policy.violations(service, YAML(typ="safe").load(services.render(service, matrix, rows))) == []


# The service, the change of its pipeline, and a part of the message.
HIDDEN = {
    "a plan that may fail": ("gitlab", lambda jobs: jobs["plan"].update(allow_failure=True), "plan: allow_failure"),
    "a status that may be": ("gitlab", lambda jobs: jobs["report"].update(allow_failure={"exit_codes": [1]}), "report: allow_failure"),
    "a report by hand": ("gitlab", lambda jobs: jobs["report"].update(when="manual"), "report: when: manual"),
    "a report of good news": ("gitlab", lambda jobs: jobs["report"].pop("when"), "report: it says what happened"),
    "a report of one row": ("gitlab", lambda jobs: jobs["report"].update(needs=["plan"]), "report: it says what happened"),
    "a plan that need not be": ("gitlab", lambda jobs: jobs["report"].update(needs=[{"job": "plan", "optional": True}]), "needs: what is optional"),
    "a plan of some branches": ("gitlab", lambda jobs: jobs["plan"].update(rules=[{"changes": ["src/**"]}]), "plan: rules"),
    "a script that goes on": ("gitlab", lambda jobs: jobs["report"].update(script=["ci/kernel-matrix report || true"]), "'|| true' hides failures"),
    "a soft plan": ("buildkite", lambda steps: steps["steps"][0].update(soft_fail=True), "soft_fail"),
    "a plan of some commits": ("buildkite", lambda steps: steps["steps"][0].update(if_changed="src/**"), "if_changed"),
    "a report that waits for good news": ("buildkite", lambda steps: steps["steps"][-2].pop("continue_on_failure"), "report: it says what happened"),
    "a report that goes on": ("buildkite", lambda steps: steps["steps"][-1]["command"].append("true || true"), "hides failures"),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_a_pipeline_that_hides_a_failure_is_caught(matrix, name):
    service, change, words = HIDDEN[name]
    rows = make_row_plan(matrix, plan(matrix, "quick"), event="pull_request")
    pipeline = YAML(typ="safe").load(services.render(service, matrix, rows))
    change(pipeline)
    found = pipeline_policy.violations(service, pipeline)
    assert any(words in sentence for sentence in found), found


def test_every_event_of_the_workflows_is_one_of_the_matrix(files, matrix):
    asked = set(re.findall(r"^\s+event: ([\w-]+)$", "\n".join(files.values()), re.MULTILINE))
    asked |= {"label", "pull_request"}  # workflows choose these by an expression
    asked |= set(re.search(r"options: \[(.*)\]", files[HAND]).group(1).split(", "))
    assert asked == set(matrix.ci.events)


def test_the_label_of_hosted_machines_is_the_matrix_s(files, matrix):
    assert set(re.findall(r"runs-on: (ubuntu\S+)", "\n".join(files.values()))) == {matrix.ci.hosted}


@pytest.mark.slow
def test_the_plan_of_a_pull_request_prints_nothing_but_the_rows_where_the_workflow_reads_them(files):
    workflow = files[".github/workflows/matrix.yml"]
    assert 'rows=$(ci/kernel-matrix ci plan "${arguments[@]}" --github)' in workflow
    command = ["ci/kernel-matrix", "ci", "plan", "--github", "--event", "pull_request", "--changed-since", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "became looser" in done.stderr, "what people read is no part of what a program reads"
    [line] = done.stdout.splitlines()
    assert json.loads(line)["own"][0]["labels"][0] == "self-hosted"
    assert len(line.encode()) < 1024 * 1024, "GitHub takes no larger output of a job"


@pytest.mark.parametrize(
    ("commit", "reviewers", "status", "sentence"),
    [
        ("0123456789ab", "1", 1, "a whole commit id has 40 hexadecimal digits"),
        ("a" * 40, "0", 1, "The environment own-machines has no required reviewers"),
        ("a" * 40, None, 1, "The environment own-machines cannot be read"),
        ("a" * 40, "1", 0, ""),
    ],
)
def test_the_guard_says_what_is_missing(files, commit, reviewers, status, sentence):
    [step] = YAML(typ="safe").load(files[HAND])["jobs"]["guard"]["steps"]
    path = f"{ROOT / 'tests' / 'ci' / 'act' / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "COMMIT": commit, "GITHUB_REPOSITORY": "o/r"} | (
        {"ACT_REVIEWERS": reviewers} if reviewers else {}
    )
    done = subprocess.run(["bash", "-ec", step["run"]], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert sentence in done.stdout


def test_an_action_has_one_commit_everywhere(files):
    pins: dict[str, set[str]] = {}
    for text in files.values():
        for name, pin in re.findall(r"uses: ([\w./-]+)@(\S+ # \S+)", text):
            pins.setdefault(name, set()).add(pin)
    assert pins
    assert all(len(found) == 1 for found in pins.values()), pins
