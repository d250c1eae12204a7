"""The version of the package under test is recorded where only its source is on the import path."""

from __future__ import annotations

import pytest
from common import END, ROOT, Doubles
from records import middle, states

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.own_version import OwnVersion, own_version


def expecting(doubles: Doubles, version: str) -> None:
    """Expect the wrong kernel's case to fail with a version of the package."""
    path = doubles.root / "matrix.yaml"
    where = "{ toolchain: wrong, tokens: 2 }"
    path.write_text(f"{path.read_text()}expectations:\n  - {{ where: {where}, outcome: fail, match: max_abs, reason: "
                    f"it is wrong on purpose, versions: ['{version}'], {END} }}\n")  # fmt: skip


def with_version(doubles: Doubles, version: str) -> None:
    """Give the doubles a version in their module."""
    with (doubles.root / "src" / "doubles" / "__init__.py").open("a") as module:
        module.write(f'\n__version__ = "{version}"\n')


def test_the_kernels_of_this_repository_have_their_version(matrix):
    assert own_version(ROOT, matrix.package) == OwnVersion("mhc", "0.1.0")


def test_the_name_and_version_are_those_of_the_package_s_own_project(doubles: Doubles):
    package = doubles.matrix.package
    assert own_version(doubles.root, package) == OwnVersion("doubles", "")
    (doubles.root / "pyproject.toml").write_text("[project]\nname = 'an-adapter'\nversion = '9'\n")
    with_version(doubles, "1.0")
    assert own_version(doubles.root, package) == OwnVersion("doubles", "1.0"), (
        "another project's version is not its own"
    )
    (doubles.root / "pyproject.toml").write_text("[project]\nname = 'Doubles'\nversion = '1.2'\n")
    assert own_version(doubles.root, package) == OwnVersion("Doubles", "1.2")
    (doubles.root / "src" / "doubles" / "pyproject.toml").write_text(
        "[project]\nname = 'doubles'\ndynamic = ['version']"
    )
    assert own_version(doubles.root, package) == OwnVersion("doubles", "1.0")
    assert own_version(doubles.root / "nowhere", package) is None, "it is installed in the environment"


@pytest.mark.parametrize("text", ["__version__ = 1 +", "__version__ = version()", "__version__: str", "\0"])
def test_a_version_that_is_no_text_is_not_known(doubles: Doubles, text):
    (doubles.root / "src" / "doubles" / "__init__.py").write_text(text)
    assert own_version(doubles.root, doubles.matrix.package) == OwnVersion("doubles", "")


@pytest.mark.slow
def test_an_expectation_can_name_the_version_of_the_package_under_test(doubles: Doubles):
    with_version(doubles, "1.0")
    expecting(doubles, "doubles==1.0")
    comparison = doubles.run("wrong")
    assert states(comparison) == ["pass", "known", "pass"]
    record = middle(comparison).record
    assert record is not None
    assert record.job["version.doubles"] == "1.0"


@pytest.mark.slow
def test_the_version_of_the_source_hides_that_of_an_installed_one(doubles: Doubles, tmp_path, monkeypatch):
    """The source comes first on the import path of a job."""
    installed = tmp_path / "installed" / "Doubles-0.5.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: Doubles\nVersion: 0.5\n")
    doubles.edit("DOUBLES_SCRATCH:", f"PYTHONPATH: '{doubles.root / 'src'}:{installed.parent}', DOUBLES_SCRATCH:")
    record = middle(doubles.run("good")).record
    assert record is not None
    assert record.job["version.Doubles"] == "0.5"
    with_version(doubles, "1.0")
    record = middle(doubles.run("good")).record
    assert record is not None
    assert record.job["version.doubles"] == "1.0"
    assert "version.Doubles" not in record.job


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.0", r"'doubles<1' could never hold: the package is doubles 1.0. Correct the version"),
        ("", r"could never hold: nothing says the version of 'doubles'. Give it one in its pyproject.toml"),
    ],
)
def test_a_version_that_the_package_does_not_have_is_a_fault(doubles: Doubles, version, message):
    if version:
        with_version(doubles, version)
    expecting(doubles, "doubles<1")
    with pytest.raises(UserError, match=message):
        _ = doubles.matrix


@pytest.mark.parametrize(("name", "version"), [("doubles", "2.5"), ("another", "")])
def test_a_source_archive_says_the_version_that_its_build_would_take_from_git(doubles, name, version):
    (doubles.root / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n\nVersion: 9\n")
    assert own_version(doubles.root, doubles.matrix.package) == OwnVersion("doubles", version)
