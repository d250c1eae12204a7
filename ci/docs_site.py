"""Build the documentation site from docs/ and from the code: python ci/docs_site.py [FOLDER].

The generator is Zensical. The authors of Material for MkDocs make it, and they support that one no longer; it reads the
same Markdown, and refuses a link to a page or a heading that is not there (--strict). The pages stay plain Markdown: a
code host shows them too, and another generator could take them.

Exit status: 0 the site is in FOLDER (build/docs), else the generator's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from docs_reference import pages as reference_pages
from docs_tables import filled

ROOT = Path(__file__).resolve().parent.parent
ASSETS = (".png", ".svg")
# Pages that stand elsewhere in the repository, by their place on the site.
BESIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
NAVIGATION: Mapping[str, tuple[str, ...]] = {
    "Start": ("index.md", "readme.md"),
    "Tutorials": ("tutorials/*.md", "launches.md", "watch.md", "worked-examples.md"),
    "How to": ("how-to/*.md", "containers.md", "runners.md", "reports.md", "history.md", "queries.md"),
    "Reference": ("reference/*.md", "states.md", "words.md"),
    "Explanation": (
        *("explanation.md", "accuracy.md", "cheats.md", "agreement.md", "diff.md"),
        *("fuzzing.md", "verify.md", "sanitizers.md", "caches.md", "wheels.md"),
        *("limits.md", "job.md", "stale.md", "toolchains.md", "versions.md", "mutants.md", "scale.md"),
    ),
    "The kernels": ("kernels.md", "speed.md", "weights.md", "webgpu.md", "tpu.md", "emulation.md"),
    "The project": ("contributing.md", "changelog.md"),
}
_FENCE = re.compile(r"^(```.*?^```[^\n]*)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
_SOURCE = re.compile(r'(src|srcset)="([^"]+)"')
_ITEM = re.compile(r"^([^\s|#>-][^\n]*)\n(?=(?:- |1\. ))", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Lay the pages out and run the generator."""
    site = Path(arguments[0] if arguments else ROOT / "build" / "docs").resolve()
    work = site.with_name(f"{site.name}-source")
    shutil.rmtree(work, ignore_errors=True)
    lay_out(work / "docs")
    (work / "zensical.toml").write_text(configuration(work / "docs"), encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    command = [str(program) if program.exists() else "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    output = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    if done.returncode:
        print(output.partition("Traceback")[0].rstrip(), file=sys.stderr)
        return done.returncode
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(work / "site", site)
    print(f"documentation: {site / 'index.html'}")
    return 0


def lay_out(folder: Path) -> None:
    """Write every page and asset of the site into a folder."""
    sources = page_sources()
    for source, place in sources.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / source).read_text(encoding="utf-8")
        path.write_text(converted(filled(text), PurePosixPath(source), sources), encoding="utf-8")
    for path in (ROOT / "docs").glob("*"):
        if path.suffix in ASSETS:
            shutil.copy(path, folder / path.name)
    for name, text in reference_pages().items():
        path = folder / "reference" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def page_sources() -> dict[str, str]:
    """Return the place of every page on the site, by its path in the repository."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return {
        **{path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in docs},
        **{name: place for name, place in BESIDE.items() if (ROOT / name).exists()},
    }


def converted(text: str, source: PurePosixPath, sources: Mapping[str, str]) -> str:
    """Return a page with links as the site needs them, and a blank line before every list."""

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        words = _LINK.sub(link, words)
        place = linked(target, source, sources)
        return f"{image}[{words}]({place})" if place else words

    def asset(match: re.Match[str]) -> str:
        return f'{match[1]}="{linked(match[2], source, sources) or match[2]}"'

    pieces = _FENCE.split(text)
    for number in range(0, len(pieces), 2):  # fences stay as they are
        piece = _ITEM.sub(_with_blank_line, pieces[number])
        pieces[number] = _SOURCE.sub(asset, _LINK.sub(link, piece))
    return "".join(pieces)


def _with_blank_line(match: re.Match[str]) -> str:
    return match[0] if match[1].startswith(("- ", "1. ")) else f"{match[0]}\n"


def linked(target: str, source: PurePosixPath, sources: Mapping[str, str]) -> str | None:
    """Return a link of a page as the site has it; None where the site has no such file and nobody knows its address."""
    path, _, anchor = target.partition("#")
    named = os.path.normpath(source.parent / path)
    if "://" in target or not path or not (ROOT / named).exists():
        return target  # the generator refuses it where there is no such page
    place = sources.get(named) or (os.path.relpath(named, "docs") if Path(named).suffix in ASSETS else None)
    end = f"#{anchor}" if anchor else ""
    if place is not None:
        return os.path.relpath(place, PurePosixPath(sources[str(source)]).parent) + end
    server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if not (server and repository):
        return None
    kind = "tree" if (ROOT / named).is_dir() else "blob"
    return f"{server}/{repository}/{kind}/{os.environ.get('GITHUB_SHA', 'main')}/{named}{end}"


def configuration(docs: Path) -> str:
    """Return the generator's settings: the pages in their order, both palettes, the search, no request to others."""
    groups = [f'  {{ "{title}" = [{", ".join(_entries(docs, names))}] }},' for title, names in NAVIGATION.items()]
    return f"""[project]
site_name = "kernel-matrix"
site_description = "One table for a package of GPU kernels: what ran, what only compiled, how exact, what is not known"
docs_dir = "docs"
site_dir = "site"
use_directory_urls = false
nav = [
{chr(10).join(groups)}
]
[project.theme]
font = false
features = ["navigation.tabs", "navigation.top", "content.code.copy", "search.highlight", "toc.follow"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"
[project.markdown_extensions.tables]
[project.markdown_extensions.admonition]
[project.markdown_extensions.attr_list]
[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
"""


def _entries(docs: Path, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        for path in sorted(docs.glob(name)):
            yield f'"{path.relative_to(docs).as_posix()}"'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
