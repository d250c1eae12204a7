"""WGSL as TVM and TileLang write it becomes a kernel that a launch knows, also with tensors in bf16."""

from __future__ import annotations

import re

import pytest

from mhc.toolchain.wgsl import Binding, shader_of

HEAD = """
@group(0) @binding(0) var<storage, read> x_ptr : array<f32>;
@group(0) @binding(1) var<storage, read_write> out_ptr : array<f32>;

struct PODArgs {
  tokens: i32,
  packGridDimX: u32
}
@group(0) @binding(2) var<uniform> podArgs : PODArgs;

@compute @workgroup_size(128, 1, 1)
fn one_kernel(
  @builtin(workgroup_id) blockIdx : vec3<u32>,
) {
"""


def kernel(*lines: str) -> str:
    return HEAD + "".join(f"  {line}\n" for line in lines) + "}\n"


def body(source: str) -> list[str]:
    """Return the kernel's own lines."""
    inside = source.split(") {\n", 1)[1].split("\n}\n", 1)[0]
    return [line.strip() for line in inside.splitlines()]


def test_a_shader_has_its_buffers_by_name_and_the_fields_of_its_uniform():
    shader = shader_of(kernel("out_ptr[0i] = x_ptr[1i];"))
    assert shader.entry == "one_kernel"
    assert shader.bindings == (Binding("x", 0, False), Binding("out", 1, True))
    assert (shader.uniform, shader.fields) == (2, ("tokens", "packGridDimX"))
    assert "mhc_" not in shader.source, "nothing is in bf16"


def test_names_that_wgsl_keeps_for_itself_get_another_beginning():
    shader = shader_of(kernel("for (var __1 : i32 = 0i; __1 < 19i; __1++) { let v__1 = __1; }"))
    assert body(shader.source) == ["for (var mhc__1 : i32 = 0i; mhc__1 < 19i; mhc__1++) { let v__1 = mhc__1; }"]


@pytest.mark.parametrize("text", ["", kernel() + kernel(), HEAD.replace("var<uniform>", "var<private>")])
def test_a_text_that_is_not_one_kernel_is_refused(text):
    with pytest.raises(ValueError, match="one each is known"):
        shader_of(text)


def test_reads_and_writes_of_a_tensor_in_bf16_go_through_functions():
    shader = shader_of(
        kernel("out_ptr[(i + 1i)] = fma(x_ptr[(i * 2i)], x_ptr[i], 1.0f);", "if (x_ptr[0i] == 1.0f) { }"), {"x", "out"}
    )
    assert body(shader.source) == [
        "mhc_store_out_ptr((i + 1i), fma(mhc_load_x_ptr((i * 2i)), mhc_load_x_ptr(i), 1.0f));",
        "if (mhc_load_x_ptr(0i) == 1.0f) { }",
    ]
    assert "var<storage, read> x_ptr : array<u32>;" in shader.source
    assert "var<storage, read_write> out_ptr : array<atomic<u32>>;" in shader.source, "a word can be two threads' own"
    assert shader.source.count("fn mhc_narrow(") == 1


def test_only_the_tensors_that_are_named_are_in_bf16():
    source = shader_of(kernel("out_ptr[i] = x_ptr[i];"), {"x"}).source
    assert body(source) == ["out_ptr[i] = mhc_load_x_ptr(i);"]
    assert "out_ptr : array<f32>;" in source
    assert "atomic" not in source


def test_a_tensor_of_a_similar_name_is_another_one():
    source = shader_of(kernel("out_ptr[i] = grad_x_ptr[x_ptr_1[x_ptr[i]]];"), {"x"}).source
    assert body(source) == ["out_ptr[i] = grad_x_ptr[x_ptr_1[mhc_load_x_ptr(i)]];"]


def test_an_index_that_reads_the_same_tensor_is_rewritten_too():
    source = shader_of(kernel("out_ptr[i32(x_ptr[i32(x_ptr[i])])] = 0.0f;"), {"x", "out"}).source
    assert body(source) == ["mhc_store_out_ptr(i32(mhc_load_x_ptr(i32(mhc_load_x_ptr(i)))), 0.0f);"]


def test_vectors_are_read_and_written_by_their_elements():
    text = re.sub(
        r"array<f32>;", "array<vec4<f32>>;", kernel("raw = x_ptr[(i / 4i)][2];", "out_ptr[i] = vec4<f32>(raw);")
    )
    source = shader_of(text, {"x", "out"}).source
    assert body(source) == ["raw = mhc_load_x_ptr_vector((i / 4i))[2];", "mhc_store_out_ptr_vector(i, vec4<f32>(raw));"]
    assert "vec4<f32>(mhc_load_x_ptr(4i * i + 0i), mhc_load_x_ptr(4i * i + 1i)" in source


@pytest.mark.parametrize("line", ["out_ptr[i] += 1.0f;", "out_ptr[i][2] = 1.0f;", "out_ptr[i].x = 1.0f;"])
def test_a_write_that_is_not_known_is_refused(line):
    with pytest.raises(ValueError, match="out_ptr is written in a way that is not known"):
        shader_of(kernel(line), {"out"})


def test_elements_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="x_ptr has elements of f16"):
        shader_of(kernel("out_ptr[i] = 0.0f;").replace("x_ptr : array<f32>", "x_ptr : array<f16>"), {"x"})
