"""The settings of installers for this machine's network: certificates, indexes, folders of wheels, proxies."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from kernel_matrix.base.pip_files import with_files
from kernel_matrix.base.wheels import known_wheels, words
from kernel_matrix.vendors import builds

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY")


def proxies() -> dict[str, str]:
    """Return the proxy settings, which an engine passes to a build without keeping them."""
    names = [name for upper in _PROXIES for name in (upper, upper.lower())]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def certificates() -> Path | None:
    """Return the file of certificates that pip or OpenSSL is told to trust."""
    variables = with_files(os.environ)
    return next((Path(path) for name in ("PIP_CERT", "SSL_CERT_FILE") if (path := variables.get(name))), None)


def wheels(locks: Iterable[bytes], kind: str) -> list[Path]:
    """Return the wheels whose versions a lock names, from the folders that pip or uv is configured with.

    None is a build of a library for another kind of machine.
    """
    pins = {  # not a mapping: a lock may pin a distribution to another version on each kind of machine
        (canonicalize_name(name), version)
        for lock in locks
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock.decode(), re.MULTILINE)
    }
    known = known_wheels()
    fitting = {path.name: path for name, of, path in known if {(name, str(of)), (name, of.public)} & pins}
    return [path for path in fitting.values() if not _is_of_another(path, kind)]


def _is_of_another(wheel: Path, kind: str) -> bool:
    name, version, *_ = parse_wheel_filename(wheel.name)
    return name == builds.distribution() and builds.is_of_another(str(version), kind)


def site(wheels: Iterable[Path]) -> Mapping[str, bytes | Path]:
    """Return the files that bring these settings into a container: wheels, and what pip, uv and the shell read."""
    files: dict[str, bytes | Path] = {wheel.name: wheel for wheel in wheels}
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in proxies().items())
    files["proxies"] = "".join(exports).encode()
    if trusted := certificates():
        files["ca.crt"] = trusted
    index = next(iter(words("UV_DEFAULT_INDEX", "PIP_INDEX_URL")), None)
    # uv takes NAME=ADDRESS too.
    addresses = (re.sub(r"^[\w.-]+=", "", word) for word in words("UV_INDEX", "PIP_EXTRA_INDEX_URL"))
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
