"""Read a candidate's text. What is found is advice, and never proof: a name can be made of pieces."""

from __future__ import annotations

import ast
import re

_WORDS = (
    (r"gc\.get_(objects|referrers)", "walks the garbage collector"),
    (r"_getframe|inspect\.(stack|currentframe)|f_back", "reads frames"),
    (r"/proc/self|/proc/\{|/dev/fd", "reads what Linux shows of processes"),
    (r"os\._exit|os\.kill|SystemExit", "ends a process"),
    (r"__torch_function__|_make_subclass|as_subclass|__torch_dispatch__", "has a subclass of a tensor"),
    (r"data_ptr\(\)", "looks at addresses"),
    (r"sitecustomize|\.pth\b|LD_PRELOAD|PYTHONPATH", "has to do with how Python starts"),
    (r"sys\.argv|os\.environ|getenv", "looks at its surroundings"),
    (r"threading|Thread\(|multiprocessing|os\.fork|subprocess", "starts threads or processes"),
    (r"cuda\.Stream|stream\(|CUDAGraph|cudaStream", "uses streams or graphs"),
    (r"except[^\n]*:\s*\n\s+return", "falls back to something else after an error"),
    (r"\b(import|from)\s+(reference|solution)\b", "imports the reference"),
    (r"torch\.compile|jit\.script", "has PyTorch compile it"),
)


def notes(source: str) -> list[str]:
    """Return what a person would look at first."""
    found = [text for pattern, text in _WORDS if re.search(pattern, source)]
    return [*found, *(["has a Triton kernel (triton)"] if has_triton(source) else [])]


def compiles(source: str) -> bool:
    """Return whether the text seems to have something compiled, which takes its time."""
    return has_triton(source) or re.search(r"compile|load_inline|cpp_extension|jit|subprocess", source) is not None


def has_triton(source: str) -> bool:
    """Return whether the text has a function that Triton compiles."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return any(
        ("triton" in text and "jit" in text) or text == "jit"
        for one in functions
        for text in map(ast.unparse, one.decorator_list)
    )
