"""The names of opcodes: one for each operation, where AMD's families have several."""

from __future__ import annotations

import re

from gpu_emulators.amd.records import DOUBLE, EXACT, SINGLE

# What the interpreter need not do: hints, caches, priorities, and waits for what it has done already.
NOTHING = frozenset(
    """
    v_nop s_nop s_setprio s_sleep s_delay_alu s_clause s_inst_prefetch s_set_inst_prefetch_distance s_icache_inv
    s_gl1_inv s_dcache_inv s_dcache_wb buffer_gl0_inv buffer_gl1_inv buffer_wbl2 buffer_inv global_inv global_wb
    global_wbinv s_wait_alu s_waitcnt_depctr s_wait_storecnt s_wait_xcnt s_wait_bvhcnt s_wait_samplecnt s_wait_expcnt
    s_waitcnt_vscnt s_waitcnt_expcnt s_set_vgpr_msb s_version s_barrier_signal s_ttracedata s_ttracedata_imm
    """.split()  # noqa: SIM905  # a list of literals is one name a line
)
CALLS = ("s_swappc_b64", "s_setpc_b64")  # jumps to an address in a register: to a function, and back
_RENAMED = {
    "s_code_end": "s_endpgm",
    "s_barrier_wait": "s_barrier",
    "s_waitcnt_vmcnt": "s_wait_loadcnt",
    "v_mad_mix_f32": "v_fma_mix_f32",
    "v_mad_mixlo_f16": "v_fma_mixlo_f16",
    "v_mad_mixhi_f16": "v_fma_mixhi_f16",
    "v_cvt_pk_rtz_f16_f32": "v_cvt_pkrtz_f16_f32",
    "v_clz_i32_u32": "v_ffbh_u32",
    "v_ctz_i32_b32": "v_ffbl_b32",
    "s_clz_i32_u32": "s_flbit_i32_b32",
    "s_clz_i32_u64": "s_flbit_i32_b64",
    "s_ctz_i32_b32": "s_ff1_i32_b32",
    "s_ctz_i32_b64": "s_ff1_i32_b64",
    "s_cls_i32": "s_flbit_i32",
    "s_cls_i32_i64": "s_flbit_i32_i64",
    "v_cls_i32": "v_ffbh_i32",
    "v_cvt_floor_i32_f32": "v_cvt_flr_i32_f32",
    "v_cvt_nearest_i32_f32": "v_cvt_rpi_i32_f32",
    "s_add_ci_u32": "s_addc_u32",
    "s_sub_ci_u32": "s_subb_u32",
    "s_addk_co_i32": "s_addk_i32",
    "v_add_co_ci_u32": "v_addc_co_u32",
    "v_sub_co_ci_u32": "v_subb_co_u32",
    "v_subrev_co_ci_u32": "v_subbrev_co_u32",
}
_RULES = (
    (re.compile(r"^v_dual_"), "v_"),
    (re.compile(r"^v_dot2acc_"), "v_dot2c_"),
    (re.compile(r"^([sv]_(?:pk_)?(?:maxmin|minmax|(?:max|min|med)3?))_num_"), r"\1_"),
    (re.compile(r"^(s_(?:add|sub)(?:k|rev)?)_(?:co|nc)_"), r"\1_"),
    (re.compile(r"^(v_(?:add|sub|subrev))_nc_"), r"\1_"),
    (re.compile(r"^v_mad_co_"), "v_mad_"),
    (re.compile(r"^(v_(?:mad|fma|div_fixup))_legacy_([fiu]16)$"), r"\1_\2"),
    (re.compile(r"^(v_cmpx?)_tru_"), r"\1_t_"),
    (re.compile(r"^s_or_not0_"), "s_orn1_"),
    (re.compile(r"^s_and_not1_"), "s_andn2_"),
    (re.compile(r"^s_or_not1_"), "s_orn2_"),
    (re.compile(r"^s_and_not0_"), "s_andn1_"),
    (re.compile(r"^v_mov_b32_sdwa$"), "v_mov_b32"),
)


def common(name: str) -> str:
    """Return the name that all families share for the operation of an opcode."""
    if name in NOTHING:
        return "s_nop"
    for pattern, replacement in _RULES:
        name = pattern.sub(replacement, name)
    return _RENAMED.get(name, name)


def is_half(name: str, place: int) -> bool:
    """Return whether an operand of an opcode has 16 bits; the result is operand 3."""
    if match := re.fullmatch(r"v_cvt_([a-z]+\d+)_([a-z]+\d+)", name):
        return match[1 if place == 3 else 2].endswith("16")
    if name == "v_pack_b32_f16":
        return place < 2
    if name in ("v_mad_u32_u16", "v_mad_i32_i16", "v_sad_u16") or re.match(r"v_dot\d+c?_[fiu]32_", name):
        return False
    return name.endswith("16")


# Operations that MODE does not change: they round as they say, or not at all.
_EXACT = re.compile(
    r"_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos|rndne|class)_|cvt_(pk_)?[iu]\d|cvt_\w*(bf16|pkrtz|sr|fp8|bf8|off)|mfma|wmma|dot"
)
_FLOATING = re.compile(r"_(f16|f32|f64)(_|$)")


def precision_of(name: str) -> int:
    """Return which bits of MODE an operation obeys: by the number that it makes or compares."""
    found = _FLOATING.search(name)
    if found is None or _EXACT.search(name):
        return EXACT
    is_single = found[1] == "f32" and "mixlo" not in name and "mixhi" not in name
    return SINGLE if is_single or name == "v_cvt_f64_f32" else DOUBLE  # which is exact, but takes a number of fp32
