"""The settings of installers for this machine's network: certificates, indexes, folders of wheels, proxies."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")


def proxies() -> dict[str, str]:
    """Return the proxy settings, which an engine passes to a build without keeping them."""
    names = [name for upper in _PROXIES for name in (upper, upper.lower())]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def certificates() -> Path | None:
    """Return the file of certificates that pip or OpenSSL is told to trust."""
    return next((Path(path) for name in ("PIP_CERT", "SSL_CERT_FILE") if (path := os.environ.get(name))), None)


def _known_wheels() -> Iterator[tuple[str, Version, Path]]:
    """Yield name, version and file of each wheel in the folders that pip or uv is configured with."""
    for folder in _words("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        for path in sorted(Path(folder.removeprefix("file://")).glob("*.whl")):
            with contextlib.suppress(InvalidWheelFilename):
                name, version, *_ = parse_wheel_filename(path.name)
                yield name, version, path


def wheels(locks: Iterable[bytes]) -> list[Path]:
    """Return the wheels whose versions a lock names, from the folders that pip or uv is configured with."""
    pins = {  # not a mapping: a lock may pin a distribution to another version on each kind of machine
        (canonicalize_name(name), version)
        for lock in locks
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock.decode(), re.MULTILINE)
    }
    known = _known_wheels()
    fitting = {path.name: path for name, of, path in known if {(name, str(of)), (name, of.public)} & pins}
    return list(fitting.values())


def wheels_of(distribution: str) -> list[tuple[str, str]]:
    """Return the name and version of each wheel of a distribution in the folders that pip or uv has, oldest first."""
    wanted = canonicalize_name(distribution)
    return [(wanted, str(of)) for of in sorted({of for name, of, _ in _known_wheels() if name == wanted})]


def site(wheels: Iterable[Path]) -> Mapping[str, bytes | Path]:
    """Return the files that bring these settings into a container: wheels, and what pip, uv and the shell read."""
    files: dict[str, bytes | Path] = {wheel.name: wheel for wheel in wheels}
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in proxies().items())
    files["proxies"] = "".join(exports).encode()
    if trusted := certificates():
        files["ca.crt"] = trusted
    index = next(iter(_words("UV_DEFAULT_INDEX", "PIP_INDEX_URL")), None)
    # uv takes NAME=ADDRESS too.
    addresses = (re.sub(r"^[\w.-]+=", "", word) for word in _words("UV_INDEX", "PIP_EXTRA_INDEX_URL"))
    extra = [address for address in addresses if not address.startswith("file:")]
    pip, uv = ["[global]"], []
    if index:
        pip.append(f"index-url = {index}")
        uv.append(f'index-url = "{index}"')
    if extra:
        pip.append(f"extra-index-url = {' '.join(extra)}")
        uv.append(f"extra-index-url = [{', '.join(repr(address) for address in extra)}]")
    files["pip.conf"] = ("\n".join(pip) + "\n").encode()
    files["uv.toml"] = ("\n".join(uv) + "\n").encode()
    return files


def _words(*names: str) -> list[str]:
    """Return the words of the first of these environment variables that is set."""
    return next((re.split(r"[\s,]+", value.strip()) for name in names if (value := os.environ.get(name))), [])
