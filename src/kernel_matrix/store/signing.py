"""Sign with an SSH key, and find out whose key has signed: all of it is ssh-keygen's work."""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from kernel_matrix.base.errors import UserError

NAMESPACE = "kernel-matrix-results"  # a signature of the same key for another purpose is none of these results
USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_FIRST, _LAST = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_KEY = re.compile(r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+")
_WIDTH = 70  # of the lines of a signature


def key_to_use(named: Path | None) -> Path:
    """Return the key that is named, else the first usual one of this user.

    Raises:
        UserError: there is none.
    """
    folder = Path.home() / ".ssh"
    found = [path for path in ([named] if named else [folder / name for name in USUAL_KEYS]) if path.is_file()]
    if not found:
        raise UserError(
            f"{named or folder}: there is no SSH key. `ssh-keygen -t ed25519` makes one; add its public half to your "
            "account at GitHub."
        )
    return found[0]


def fingerprint_of(key: Path) -> str:
    """Return the fingerprint of a key.

    Raises:
        UserError: there is no ssh-keygen, or the file is no key.
    """
    answer = _ssh_keygen(["-l", "-E", "sha256", "-f", str(key)])
    if answer.returncode or not (match := _FINGERPRINT.search(answer.stdout)):
        raise UserError(f"{key}: this is no SSH key ({_last_line(answer)}).")
    return match[0]


def sign(content: bytes, key: Path, namespace: str = NAMESPACE) -> str:
    """Return the signature of some bytes; ssh-keygen may ask for the passphrase of the key.

    Raises:
        UserError: the key cannot sign.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-sign-") as name:
        file = Path(name) / "content"
        file.write_bytes(content)
        answer = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", namespace, str(file)])
        made = Path(f"{file}.sig")
        if answer.returncode or not made.exists():
            raise UserError(f"{key}: it did not sign ({_last_line(answer)}).")
        return made.read_text(encoding="ascii")


def is_written_once(signature: str) -> bool:
    """Return whether a signature is written in the one way in which ssh-keygen writes its bytes."""
    try:
        first, *lines, last = signature.splitlines()
        content = base64.b64decode("".join(lines), validate=True)
    except (ValueError, binascii.Error):
        return False
    text = base64.b64encode(content).decode()
    wrapped = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return (first, last) == (_FIRST, _LAST) and signature == "\n".join([_FIRST, *wrapped, _LAST]) + "\n"


def signed_by(content: bytes, signature: str) -> str:
    """Return the fingerprint of the key that has signed these bytes, whoever has it; empty if none has."""
    return _verified(content, signature, ["-Y", "check-novalidate"])[0]


def signed_by_one_of(content: bytes, signature: str, account: str, signers: Sequence[str]) -> tuple[str, str]:
    """Return the fingerprint of the key of an account that has signed these bytes; empty if none has, and why.

    ``signers`` are lines of an allowed_signers file. Whom a line names, until when and for what, ssh-keygen decides.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-keys-") as name:
        allowed = Path(name) / "allowed_signers"
        allowed.write_text("".join(f"{line}\n" for line in signers), encoding="utf-8")
        fingerprint, why = _verified(content, signature, ["-Y", "verify", "-f", str(allowed), "-I", account])
        return fingerprint, why.replace(f"{name}/", "")


def signers_in(text: str, account: str) -> Iterator[str]:
    """Yield the lines of an allowed_signers file that may be of an account, as they are.

    A line as GitHub gives them has no name, and gets the account's.
    """
    for line in map(str.strip, text.split("\n")):
        first = line.split()[0] if line else "#"
        if _KEY.fullmatch(first):
            yield f"{account} {line}"
        elif not first.startswith("#") and any(fnmatchcase(account, name) for name in first.strip('"').split(",")):
            yield line


def _verified(content: bytes, signature: str, words: Sequence[str]) -> tuple[str, str]:
    if not is_written_once(signature):
        return "", "its signature is not as ssh-keygen writes it"
    with tempfile.TemporaryDirectory(prefix="kernel-matrix-signature-") as name:
        file = Path(name) / "signature"
        file.write_text(signature, encoding="ascii")
        answer = _ssh_keygen([*words, "-n", NAMESPACE, "-s", str(file)], content)
    match = _FINGERPRINT.search(answer.stdout)
    return (match[0], "") if answer.returncode == 0 and match else ("", _last_line(answer))


def _ssh_keygen(words: Sequence[str], content: bytes | None = None) -> subprocess.CompletedProcess[str]:
    try:
        answer = subprocess.run(["ssh-keygen", *words], input=content, capture_output=True, check=False)
    except FileNotFoundError:
        raise UserError("there is no ssh-keygen here, and signatures need it: install OpenSSH's client.") from None
    texts = (text.decode(errors="replace") for text in (answer.stdout, answer.stderr))
    return subprocess.CompletedProcess(answer.args, answer.returncode, *texts)


def _last_line(answer: subprocess.CompletedProcess[str]) -> str:
    return ([line for line in answer.stderr.splitlines() if line.strip()] or ["no reason given"])[-1].strip()
