"""Recognise the operators of a package in its sources, and the plain code that stands for them."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kernel_matrix.adopt.launching import Launching
from kernel_matrix.adopt.modules import Module, read
from kernel_matrix.adopt.repository import Repository

# Words of a name, or of a module's path, that say what a function is for; the rest of its name is the operator's.
_PLAIN = {"ref", "reference", "references", "naive", "torch", "pytorch", "eager", "golden", "plain", "native", "slow"}
_BACKWARD = {"bwd", "backward", "grad"}
_KERNEL = {"triton", "fused", "fast", "cuda", "kernel", "fwd", "forward", "function", "fn", "op", "launcher", "apply"}
_TENSOR, _OPTION = re.compile(r"Tensor|Array|ndarray"), re.compile(r"\b(int|float|bool|str|dtype|Literal|device)\b")
_LIST = re.compile(r"[\(\[]([\w\s,.*+/-]+)[\)\]]")
# Before a list of axes: a word that says so, or nothing but what kind of array it is.
_BEFORE = re.compile(
    r".*\b(shape|size|dim(ension)?s?)\W*((of|is|are)\W*)?|[\s:#*`-]*"
    r"((an?|the|input|output|optional|contiguous|packed|row|major|(torch\.|np\.|jnp\.)?[Tt]ensors?|matrix|vector"
    r"|(torch\.|np\.|numpy\.|jnp\.|jax\.)?(nd)?[Aa]rray(Like)?|bf\d+|fp\d+|float\d*|half|u?int\d*|bool|of|in|\(\S*[Tt]ensor\S*\))[\s:,*`-]*)*"
)
_HOLDS = re.compile(r"\b(Callable|Sequence|Iterable|Iterator|Mapping|[Ll]ist|[Tt]uple|[Dd]ict|[Ss]et|Type|type)\b")
_AXIS = re.compile(r"[A-Za-z_]\w*|\d+")
_LAUNCHES, _APPLIES = "a function that launches a kernel in Triton", "a function that applies an autograd.Function"
_FUNCTION, _TWIN = "a torch.autograd.Function", "a function with plain code of the same name"
_CALLS = "a function that calls one which launches a kernel in Triton"
_WHAT = (_APPLIES, _FUNCTION, _CALLS, _LAUNCHES, _TWIN)  # of one operator the first of these is proposed
_LIBRARIES = ("torch", "numpy", "jax", "math", "einops", "typing")
_DECORATED = re.compile(r"jit|fixture|property|overload|heuristics|autotune")
_NO_TENSORS = {"self", "ctx", "cls", "grid"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: a tensor with the axes that a comment or a docstring has, or an option."""

    name: str
    tensor: bool
    axes: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class Plain:
    """A function of plain code: where it is, its source, and the import lines that it needs (None: more than these)."""

    name: str
    where: str
    source: str
    imports: tuple[str, ...] | None


@dataclass(frozen=True)
class Recognized:
    """A function or a class that looks like an operator."""

    name: str
    kernel: str  # module:function
    where: str
    what: str  # "a torch.autograd.Function"
    parameters: tuple[Parameter, ...]
    outputs: tuple[str, ...]  # none if it returns nothing
    differentiable: tuple[str, ...] = ()
    plain: Plain | None = None


def recognize(repository: Repository) -> list[Recognized]:
    """Return the operators of a package, by their names; each name once."""
    own = list(read(repository, (source.path for source in repository.own)))
    tests = list(read(repository, (source.path for source in repository.tests)))
    launching = Launching((*own, *tests))
    plain: dict[str, list[tuple[Module, ast.FunctionDef]]] = {}
    for file in (*own, *tests):
        for name, node in file.functions.items():
            if words_of_plain(name, file.name) and not launching.launches(file, node):
                plain.setdefault(_key(name), []).append((file, node))
    backwards = {name: one for file in own for name, one in file.classes.items() if _is_function_of_autograd(one)}
    launchers = {name for file in own for name, node in file.functions.items() if launching.launches(file, node)}
    known_here = _Known(backwards, launching, launchers, set(plain))
    found: dict[str, Recognized] = {}
    for file in own:
        for one in _of_file(repository.root, file, known_here):
            known = found.get(one.name)
            if known is None or _WHAT.index(one.what) < _WHAT.index(known.what):
                found[one.name] = _with_plain(repository.root, one, plain)
    return [found[name] for name in sorted(found)]


def words_of_plain(name: str, module: str) -> bool:
    """Return whether a name, or the path of its module, says that this is plain code."""
    return bool(_PLAIN & {*name.lower().split("_"), *re.split(r"[._]", module.lower())})


def _key(name: str) -> str:
    """Return the operator's part of a name: ``triton_rms_norm`` and ``rms_norm_ref`` are one."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    return "_".join(word for word in words if word not in _PLAIN | _KERNEL) or name.lower()


class _Known(NamedTuple):
    """Facts of the whole package."""

    backwards: dict[str, ast.ClassDef]  # the Functions of autograd
    launching: Launching
    launchers: set[str]  # functions that launch a kernel
    twins: set[str]  # operators of which there is plain code

    def what(self, file: Module, name: str, node: ast.FunctionDef) -> str:
        """Return why a function looks like an operator; an empty text if it does not."""
        if _applied(node, self.backwards):
            return _APPLIES
        if self.launching.launches(file, node):
            return _LAUNCHES
        called = {one.func.id for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)}
        if called & self.launchers:
            return _CALLS
        return _TWIN if _key(name) in self.twins else ""


def _of_file(root: Path, file: Module, known: _Known) -> Iterator[Recognized]:
    """Yield what looks like an operator in one file: public functions, and autograd Functions."""
    if words_of_plain("", file.name):
        return
    for name, node in file.functions.items():
        what, applied = known.what(file, name, node), _applied(node, known.backwards)
        words = set(name.lower().split("_"))
        if name.startswith("_") or words & (_PLAIN | _BACKWARD) or not what or _decorated(node):
            continue
        parameters = _parameters(file, node, 0)
        differentiable = _differentiable_of_call(applied, parameters, known.backwards) if applied else ()
        if any(one.tensor for one in parameters):
            where, kernel = file.where(root, node), f"{file.name}:{name}"
            yield Recognized(_key(name), kernel, where, what, parameters, _outputs(node), differentiable)
    for name, one in file.classes.items():
        forward = _method(one, "forward")
        if _is_function_of_autograd(one) and forward is not None:
            begin = int(bool(forward.args.args) and forward.args.args[0].arg in ("ctx", "context", "self"))
            parameters = _parameters(file, forward, begin)
            given = tuple(p.name for p, asked in zip(parameters, _gradients(one), strict=False) if asked and p.tensor)
            where, kernel = file.where(root, one), f"{file.name}:{name}"
            yield Recognized(_key(name), kernel, where, _FUNCTION, parameters, _outputs(forward), given)


def _with_plain(root: Path, one: Recognized, plain: dict[str, list[tuple[Module, ast.FunctionDef]]]) -> Recognized:
    """Return the operator with the plain code of its name that has most of its parameters."""
    names = {parameter.name for parameter in one.parameters}
    choices = sorted(plain.get(one.name, []), key=lambda pair: -len(names & {one.arg for one in pair[1].args.args}))
    if not choices:
        return one
    file, node = choices[0]
    source = ast.get_source_segment(file.text, node) or ""
    found = Plain(node.name, file.where(root, node), source, _needed(file, node))
    return Recognized(**{**vars(one), "plain": found})


def _needed(file: Module, node: ast.FunctionDef) -> tuple[str, ...] | None:
    """Return the imports of large libraries that a function needs; None if it needs anything else of its file."""
    own = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    own |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    free = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - own
    free -= set(vars(builtins))
    lines = []
    for statement in file.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            named = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
            module = getattr(statement, "module", None) or statement.names[0].name
            level = getattr(statement, "level", 0)
            if (
                named & free
                and not level
                and module.partition(".")[0] in ("torch", "numpy", "math", "einops", "typing")
            ):
                lines.append(ast.unparse(statement))
                free -= named
    return None if free or node.decorator_list else tuple(lines)


def _applied(node: ast.AST, known: dict[str, ast.ClassDef]) -> ast.Call | None:
    """Return the call of ``apply`` of one of the package's own autograd Functions."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "apply":
            owner = ast.unparse(one.func.value).rpartition(".")[2]
            if owner in known:
                return one
    return None


def _decorated(node: ast.FunctionDef) -> bool:
    """Return whether a function is a kernel itself, or something of a class or of a fixture."""
    return any(
        re.search(r"jit|fixture|property|overload|heuristics|autotune", ast.unparse(m)) for m in node.decorator_list
    )


def _is_function_of_autograd(one: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("autograd.Function", "Function")) for base in one.bases)


def _method(one: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((node for node in one.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _gradients(one: ast.ClassDef) -> list[bool]:
    """Return which arguments of a Function's forward have a gradient, by what its backward returns."""
    backward = _method(one, "backward")
    if backward is None:
        return []
    for node in reversed([node for node in ast.walk(backward) if isinstance(node, ast.Return)]):
        if isinstance(node.value, ast.Tuple):
            return [not (isinstance(item, ast.Constant) and item.value is None) for item in node.value.elts]
        if node.value is not None:
            return [True]
    return []


def _differentiable_of_call(
    call: ast.Call, parameters: Sequence[Parameter], known: dict[str, ast.ClassDef]
) -> tuple[str, ...]:
    """Return the parameters that reach an argument with a gradient."""
    owner = ast.unparse(call.func.value).rpartition(".")[2]  # type: ignore[attr-defined]
    tensors = {one.name for one in parameters if one.tensor}
    pairs = zip(call.args, _gradients(known[owner]), strict=False)
    return tuple(arg.id for arg, asked in pairs if asked and isinstance(arg, ast.Name) and arg.id in tensors)


def _outputs(node: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of what a function returns: one for each item."""
    returns = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
    if not returns:
        return ()
    last = returns[-1]
    items = last.elts if isinstance(last, ast.Tuple) else [last]
    names = [item.id if isinstance(item, ast.Name) else f"out{place or ''}" for place, item in enumerate(items)]
    return tuple(dict.fromkeys(names))


def _parameters(file: Module, node: ast.FunctionDef, begin: int) -> tuple[Parameter, ...]:
    """Return the parameters of a function, from the one at ``begin`` on."""
    arguments = node.args.args[begin:]
    defaults = [None] * (len(node.args.args) - len(node.args.defaults)) + [*node.args.defaults]
    docs, lines = ast.get_docstring(node) or "", file.text.splitlines()
    found = []
    for argument, default in zip(arguments, defaults[begin:], strict=True):
        if argument.arg in _NO_TENSORS:
            continue
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        given = None if default is None else ast.unparse(default)
        if annotation:
            tensor = bool(_TENSOR.search(annotation)) and not _HOLDS.search(annotation) and given is None
        else:
            tensor = given is None and not re.search(r"eps|scale_|causal|dim$|size|num_|_len$|block", argument.arg)
        comment = lines[argument.lineno - 1].partition("#")[2]
        axes = _axes(argument.arg, annotation, f"{argument.arg} {comment}", docs) if tensor else ()
        found.append(Parameter(argument.arg, tensor, axes, given))
    return tuple(found)


def _axes(name: str, *texts: str) -> tuple[str, ...]:
    """Return the axes that a text has for an array; none where it has none, or any that is no name and no number."""
    annotation, *others = texts
    if quoted := re.search(r"['\"]([\w\s.*]+)['\"]", annotation):
        return _clean(quoted[1].split())
    for text in others:
        for named in re.finditer(rf"\b{re.escape(name)}\b([^\n]*)", text):
            for match in _LIST.finditer(named[1]):
                listed = "," in match[1] or _AXIS.fullmatch(match[1].strip())
                is_of_axes = listed and _BEFORE.fullmatch(named[1][: match.start()])
                if is_of_axes and (axes := _clean([part for part in match[1].split(",") if part.strip()])):
                    return axes
    return ()


def _clean(parts: Sequence[str]) -> tuple[str, ...]:
    words = ["tokens" if part.strip() in ("...", "*") else part.strip().lower().strip("_") for part in parts]
    reserved = {"optional", "default", "float", "int", "bool", "torch", "none", "true", "false", *keyword.kwlist}
    return tuple(words) if all(_AXIS.fullmatch(word) and word not in reserved for word in words) else ()
