"""Doctor's checks of the network: certificates and the package index."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from kernel_matrix.diagnosis import diagnose
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import last_line

_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def authorities() -> Finding:
    """Read every CA bundle that the environment names."""
    named = [name for name in _VARIABLES if os.environ.get(name)]
    faults = []
    for name in named:
        try:
            ssl.create_default_context(cafile=os.environ[name])
        except (OSError, ssl.SSLError) as error:
            faults.append(f"{name}={os.environ[name]}: {error.strerror or error}")
    if faults:
        return Finding("CA bundle", "broken", "; ".join(faults), "name a bundle that exists, or unset the variable")
    return Finding("CA bundle", "good", f"named by {', '.join(named)}" if named else "the system's own")


def index(installer: Finding) -> Finding:
    """Ask the configured index, without a cache, for a small package. ``installer`` is the finding on uv."""
    if installer.status != "good":
        return Finding("package index", "absent", "not asked: that takes uv")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        wanted.write_text("iniconfig\n")
        try:
            uv("pip", "compile", "--quiet", "--no-cache", "--no-header", str(wanted))
        except InstallError as error:
            diagnosis = diagnose(str(error), "install")
            cause = f" ({diagnosis.cause})" if diagnosis else ""
            remedy = diagnosis.remedy if diagnosis else "look at UV_DEFAULT_INDEX and PIP_INDEX_URL"
            return Finding("package index", "broken", f"{last_line(str(error))}{cause}", remedy)
    return Finding("package index", "good", "answers")
