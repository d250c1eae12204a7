"""Translate loads, stores, atomics and copies, barriers, exchanges of lanes, and products of matrices."""

from __future__ import annotations

import re

from gpu_emulators.nvidia.arithmetic import plain
from gpu_emulators.nvidia.forms import form
from gpu_emulators.nvidia.operands import SINK, Registers, pair, unknown, vector
from gpu_emulators.nvidia.parse import Instruction
from gpu_emulators.nvidia.records import PRODUCTS, Record

_SPACES = {"": 0, "global": 1, "shared": 2, "local": 3, "param": 4, "const": 1}
_WINDOWS = {"global": 0, "const": 0, "param": 0, "shared": 1 << 60, "local": 1 << 61}
_ORDERED = {"acquire", "release", "relaxed", "volatile", "mmio"}
_SCOPES = {"weak", "cta", "cluster", "gpu", "sys", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified"}
_ATOMICS = ("add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec")
_ATOMIC_TYPES = ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "u16")
_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
_SUMS = ("add", "min", "max", "and", "or", "xor")
_ELEMENTS = {"bf16": 0, "f16": 1, "tf32": 2, "e4m3": 3, "e5m2": 4, "s8": 5, "u8": 6}
_SUM_KINDS = {"f32": 0, "f16": 1, "s32": 2}
_BITS = {"tf32": 32, "bf16": 16, "f16": 16}
_BARRIERS = (
    *("init", "inval", "arrive", "arrive.expect_tx", "expect_tx", "complete_tx"),
    *("test_wait", "test_wait.parity"),
)


@form(r"(ld|ldu|st)\..*")
def access(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a load or a store of any space."""
    *words, kind = one.parts[1:]
    count, space, ordered = 1, "", 0
    for word in words:
        if word in ("v2", "v4", "v8"):
            count = int(word[1:])
        elif (name := word.partition("::")[0]) in _SPACES:
            space = name
        elif word in _ORDERED:
            ordered = 1
        elif word not in _SCOPES and name not in ("L1", "L2"):
            raise unknown(one)
    if not re.fullmatch(r"[busf](8|16|32|64)", kind):
        raise unknown(one)
    place, data = one.operands[:2] if found[1] == "st" else one.operands[1::-1]
    parts = vector(data)
    if len(parts) != count or (space == "const"):
        raise unknown(one)
    numbers = [registers.number(part, kind) for part in parts]
    bytes_ = int(kind[1:]) // 8
    base, offset = registers.address(place)
    is_signed = int(kind[0] == "s" and found[1] != "st")
    if space == "param" and not place.startswith("[%"):
        value = next(value for (_, value), number in registers.given.items() if number == base)
        return Record("ld_param", numbers, [], (0, value + offset, bytes_, is_signed))
    parameters = _SPACES[space] if space != "param" else 0, offset, bytes_, is_signed, ordered
    if found[1] == "st":
        return Record("st", [], [base, *numbers], parameters)
    return Record("ld", numbers, [base], parameters)


@form(r"(atom|red)\..*")
def atomic(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate an atomic."""
    *words, kind = one.parts[1:]
    space, operation, count = "", "", 1
    for word in words:
        if (name := word.partition("::")[0]) in ("global", "shared"):
            space = name
        elif word in _ATOMICS and not operation:
            operation = word
        elif re.fullmatch(r"v[248]", word):
            count = int(word[1:])
        elif word not in _ORDERED | _SCOPES | {"acq_rel", "noftz"} and name != "L2":
            raise unknown(one)
    kind = f"u{kind[1:]}" if re.fullmatch(r"b(16|32|64)", kind) else kind
    if kind not in _ATOMIC_TYPES or not operation:
        raise unknown(one)
    size = 4 if kind.endswith("x2") else int(re.sub(r"\D", "", kind)) // 8
    to, rest = (one.operands[:1], one.operands[1:]) if found[1] == "atom" else ((), one.operands)
    base, offset = registers.address(rest[0])
    given = [part for word in rest[1 : 3 if operation == "cas" else 2] for part in vector(word)]
    values = [registers.number(word, kind) for word in given]
    results = [registers.number(part) for word in to for part in vector(word)]
    parameters = _SPACES[space], offset, size, count, _ATOMICS.index(operation), _ATOMIC_TYPES.index(kind)
    return Record("atom", results, [base, *values], parameters)


@form(r"cvta(\.to)?\.(global|shared|local|const|param)(?:::\w+)?\.u(?:32|64)")
def generic(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate between generic addresses and the addresses of a space."""
    return plain("cvta", one, registers, _WINDOWS[found[2]], int(bool(found[1])))


@form(r"isspacep\.(global|shared|local)(?:::\w+)?")
def is_in_space(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a question of where an address is."""
    return plain("isspacep", one, registers, _SPACES[found[1]])


_WITHOUT_OPERANDS = {
    # The lanes of a warp are in step here, and memory has one order.
    "nothing": (
        r"(?:prefetch|prefetchu|membar|fence|griddepcontrol|setmaxnreg|nanosleep|applypriority)\b.*",
        r"bar\.warp\.sync",
        r"wgmma\.fence\.sync\.aligned",
    ),
    "ret": (r"ret(?:\.uni)?", r"exit"),
    "trap": (r"trap", r"brkpt"),
}
for _handler, _patterns in _WITHOUT_OPERANDS.items():
    form(*_patterns)(lambda *_, handler=_handler: Record(handler, flags=PRODUCTS))


@form(r"(bar|barrier)(?:\.cta)?\.(sync|arrive)(\.aligned)?")
def barrier(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a barrier of the block."""
    aligned = found[1] == "bar" or bool(found[3])
    sources = [registers.number(word) for word in one.operands]
    return Record("bar", [], sources, (int(found[2] == "arrive"), int(aligned)), PRODUCTS)


@form(r"shfl(?:\.sync)?\.(up|down|bfly|idx)\.b32")
def shuffle(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate an exchange between lanes."""
    to = [registers.number(word) for word in pair(one.operands[0])]
    sources = [registers.number(word) for word in one.operands[1:4]]
    return Record("shfl", to, sources, (_SHUFFLES.index(found[1]),))


@form(r"vote(?:\.sync)?\.(all|any|uni|ballot)\.(?:pred|b32)")
def vote(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a vote of a warp."""
    to, source = one.operands[:2]
    parameters = _VOTES.index(found[1]), int(source.startswith("!"))
    return Record("vote", [registers.number(to)], [registers.predicate(source.lstrip("!"))], parameters)


@form(r"(activemask)\.b32")
def active(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate the question which lanes are on."""
    return Record("activemask", [registers.number(one.operands[0])])


@form(r"elect\.sync")
def elect(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate the choice of one lane."""
    to = [registers.number(word) for word in pair(one.operands[0])]
    return Record("elect", to if len(to) > 1 else [SINK, *to])


@form(r"match\.any\.sync\.b(32|64)")
def match(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the question which lanes have the same value."""
    to, source = one.operands[:2]
    return Record("match_any", [registers.number(to)], [registers.number(source)], (int(found[1]),))


@form(r"redux\.sync\.(add|min|max|and|or|xor)\.([bsu])32")
def reduction(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a sum over a warp."""
    to, source = one.operands[:2]
    parameters = _SUMS.index(found[1]), int(found[2] == "s")
    return Record("redux", [registers.number(to)], [registers.number(source)], parameters)


@form(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?(?:\.shared(?:::cta)?)?\.b16")
def ldmatrix(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the load of matrices from shared memory."""
    base, offset = registers.address(one.operands[1])
    to = [registers.number(word) for word in vector(one.operands[0])]
    return Record("ldmatrix", to, [base], (_SPACES["shared"], offset, 2, int(bool(found[2]))))


@form(r"stmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?(?:\.shared(?:::cta)?)?\.b16")
def stmatrix(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the store of matrices to shared memory."""
    base, offset = registers.address(one.operands[0])
    numbers = [registers.number(word) for word in vector(one.operands[1])]
    return Record("stmatrix", [], [base, *numbers], (_SPACES["shared"], offset, 2, int(bool(found[2]))))


@form(r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col(\.satfinite)?\.(f32|f16|s32)\.(\w+)\.(\w+)\.\3")
def product(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a product of matrices in registers."""
    depth, kinds = int(found[1]), (found[4], found[5])
    if any(kind not in _ELEMENTS for kind in kinds):
        raise unknown(one)
    to, *factors = ([registers.number(word) for word in vector(operand)] for operand in one.operands)
    wanted = depth * _BITS.get(kinds[0], 8) // 64
    if [len(part) for part in factors[:2]] != [wanted, wanted // 2]:
        raise unknown(one)
    parameters = depth, _ELEMENTS[kinds[0]], _ELEMENTS[kinds[1]], _SUM_KINDS[found[3]], int(bool(found[2]))
    return Record("mma", to, [number for part in factors for number in part], parameters)


@form(r"mma\.sync\.aligned\.m(?:8n8k(4)|16n8k(4|8|16))\.row\.col\.f64\.f64\.f64\.f64")
def product_f64(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a product of matrices in fp64."""
    to, *factors = ([registers.number(word) for word in vector(operand)] for operand in one.operands)
    depth, blocks = int(found[1] or found[2]), 1 if found[1] else 2
    if [len(part) for part in (to, *factors)] != [2 * blocks, blocks * depth // 4, depth // 4, 2 * blocks]:
        raise unknown(one)
    return Record("mma_f64", to, [number for part in factors for number in part], (depth, blocks))


@form(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(f32|f16|s32)\.(\w+)\.(\w+)")
def wide_product(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a product of matrices in shared memory."""
    to, left, right, adds, *signs = one.operands
    kinds = found[4], found[5]
    if any(kind not in _ELEMENTS for kind in kinds):
        raise unknown(one)
    in_registers = left.startswith("{")
    numbers = [registers.number(word) for word in vector(left)]
    negated = [int(sign) < 0 for sign in signs[:2]]
    transposed = [bool(int(word)) for word in signs[2:]]
    if in_registers and transposed:
        transposed = [False, *transposed]
    bits = [in_registers, *(transposed or [False, False]), *(negated or [False, False])]
    form_of_it = sum(bool(bit) << place for place, bit in enumerate(bits))
    parameters = (
        *(int(found[2]), _ELEMENTS[kinds[0]], _ELEMENTS[kinds[1]], _SUM_KINDS[found[3]]),
        *(int(found[1]), form_of_it),
    )
    sources = [*numbers, registers.number(right), registers.predicate(adds)]
    return Record("wgmma", [registers.number(word) for word in vector(to)], sources, parameters, PRODUCTS)


@form(r"wgmma\.(commit|wait)_group\.sync\.aligned")
def products_end(one: Instruction, found: re.Match[str], _: Registers) -> Record:
    """Translate the end of a group of products, and the wait for one."""
    left = int(one.operands[0], 0) if one.operands else 0
    return Record(f"wgmma_{found[1]}", parameters=(left,), flags=PRODUCTS)


@form(r"cp\.async\.(?:ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\w+)*")
def copy(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate a copy from global to shared memory that goes on while the warp runs."""
    base, offset = registers.address(one.operands[0])
    source, behind = registers.address(one.operands[1])
    extra = list(one.operands[3:])
    if "cache_hint" in one.opcode:
        extra.pop()
    given = [registers.number(word) for word in extra]
    if any(registers.is_predicate(word) for word in extra):
        raise unknown(one)
    return Record("cp_async", [], [base, source, *given], (2, offset, int(one.operands[2], 0), behind))


@form(r"cp\.async\.(commit_group|wait_group|wait_all)")
def copies_end(one: Instruction, found: re.Match[str], _: Registers) -> Record:
    """Translate the end of a group of copies, and the wait for one."""
    if found[1] == "commit_group":
        return Record("cp_async_commit")
    return Record("cp_async_wait", parameters=(int(one.operands[0], 0) if one.operands else -1,))


@form(r"cp\.async\.bulk\.(commit_group|wait_group)(?:\.read)?")
def bulk_end(one: Instruction, found: re.Match[str], _: Registers) -> Record:
    """Translate the end of a group of copies in bulk, and the wait for one."""
    left = int(one.operands[0], 0) if one.operands else 0
    return Record(f"bulk_{found[1].partition('_')[0]}", parameters=(left,))


@form(r"cp\.async\.bulk\.(shared::\w+\.global\.mbarrier::complete_tx::bytes|global\.shared::cta\.bulk_group)(\.L2\S*)?")
def bulk(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate a copy in bulk."""
    places = [registers.address(word) for word in one.operands if word.startswith("[")]
    if any(offset for _, offset in places):
        raise unknown(one)
    to, source, *barrier_ = (number for number, _ in places)
    size = registers.number(one.operands[2])
    return Record("bulk_in" if barrier_ else "bulk_out", [], [to, source, size, *barrier_])


_MAP = {  # fields of a tensor map: where they are, their bytes, and the numbers that are known; as in async_ops.cc
    **{name: (at, 4, None) for name, at in (("rank", 40), ("global_dim", 44), ("box_dim", 64), ("element_stride", 84))},
    **{name: (at, 8, None) for name, at in (("global_address", 0), ("global_stride", 8))},
    **{name: (at, 4, range(1)) for name, at in (("interleave_layout", 108), ("fill_mode", 116))},
    "elemtype": (104, 4, range(13)),
    "swizzle_mode": (112, 4, range(4)),
}


@form(r"tensormap\.replace\.tile\.(\w+)\.(global|shared)(?:::cta)?\.b1024\.b(?:32|64)")
def map_field(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the change of one field of a tensor map: a store."""
    base, offset = registers.address(one.operands[0])
    at, size, known = _MAP.get(found[1], (0, 0, ()))
    value = one.operands[-1]
    if known is not None and int(value, 0) not in known:
        raise unknown(one)
    place = int(one.operands[1], 0) if len(one.operands) > 2 else 0
    parameters = _SPACES[found[2]], offset + at + place * size, size
    return Record("st", [], [base, registers.number(value)], parameters)


@form(r"tensormap\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release\.\w+\.sync\.aligned")
def map_out(one: Instruction, _: re.Match[str], registers: Registers) -> Record:
    """Translate the copy of a tensor map from shared to global memory."""
    places = [registers.address(word) for word in one.operands[:2]]
    if any(offset for _, offset in places) or int(one.operands[2], 0) != 128:
        raise unknown(one)
    return Record("map_out", [], [number for number, _ in places])


@form(
    r"cp\.async\.bulk\.tensor\.([1-5])d\.(shared::\w+\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
    r"|global\.shared::cta(?:\.tile)?\.bulk_group)(?:\.L2\S*)?"
)
def tile(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate a copy of a tile of a tensor, which a tensor map describes."""
    is_in = found[2].startswith("shared")
    of_map, place = one.operands[:2][::-1] if is_in else one.operands[:2]
    map_, _, coordinates = of_map.strip("[] ").partition(",")
    places = [registers.address(word) for word in (place, f"[{map_}]", *one.operands[2 : 2 + is_in])]
    if any(offset for _, offset in places):
        raise unknown(one)
    numbers = [registers.number(word) for word in vector(coordinates.strip())]
    sources = [number for number, _ in places] + numbers
    return Record("tile_in" if is_in else "tile_out", [], sources, (int(found[1]),))


@form(r"cp\.async\.mbarrier\.arrive(\.noinc)?(?:\.shared(?:::cta)?)?\.b64")
def copies_arrive(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate the arrival of earlier copies at a barrier in shared memory."""
    base, offset = registers.address(one.operands[0])
    return Record("mbarrier", [], [base], (2, offset, len(_BARRIERS), 0, int(bool(found[1]))))


@form(
    r"mbarrier\.(init|inval|arrive|arrive\.expect_tx|expect_tx|complete_tx|test_wait|try_wait)(\.parity)?"
    r"(?:\.(?:release|acquire|relaxed))?(?:\.(?:cta|cluster))?(?:\.shared(?:::\w+)?)?\.b64"
)
def transaction(one: Instruction, found: re.Match[str], registers: Registers) -> Record:
    """Translate an operation on a barrier in shared memory."""
    operands = list(one.operands)
    place = next(number for number, word in enumerate(operands) if word.startswith("["))
    base, offset = registers.address(operands[place])
    name = f"{found[1].replace('try_', 'test_')}{found[2] or ''}"
    given = [registers.number(word) for word in operands[place + 1 : place + 2]]
    to = [registers.number(word) for word in operands[:place]]
    return Record("mbarrier", to, [base, *given], (2, offset, _BARRIERS.index(name)))
