# /// probe
# asks = "Does the wheel ascendnpu-ir compile a kernel for an Ascend 910B to machine code?"
# means = "A cell of Ascend 910B can be compiled, and not only lowered."
# met = "our own matrix, platform ascend"
# platforms = ["ascend"]
# truth = "It lowers to optimised HIVM. The next program, hivmc, is in Huawei's CANN toolkit alone."
# requires = ["ascendnpu-ir", "triton-ascend"]
# [[expect]]
# verdict = "fails"
# match = 'Cannot find hivmc under \$PATH'
# ///
import subprocess
import tempfile
from pathlib import Path

import ascendnpuir
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.ascend import compiler as ascend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, out):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.load(x + i) + 1.0)


target = GPUTarget("npu", "Ascend910B2", 0)
backend = ascend.AscendBackend(target)
options = backend.parse_options({})
context = ir.context()
ir.load_dialects(context)
source = ASTSource(add, {"x": "*fp32", "out": "*fp32"}, {})
module = source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
facts = {"target": target, **options.__dict__}
text = ascend.ttir_to_linalg(ascend.make_ttir(module, facts, options), facts, options, named_ops=True)
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "add.mlir").write_text(ascend._parse_linalg_metadata(text, facts)[0])
    compiler = Path(ascendnpuir.__file__).with_name("bin") / "bishengir-compile"
    flags = ["--target=Ascend910B2", "--enable-hfusion-compile=true", "--enable-hivm-compile=true"]
    flags += ["--enable-triton-kernel-compile=true", "-o", "add.o"]
    done = subprocess.run([compiler, "add.mlir", *flags], cwd=folder, capture_output=True, text=True)
assert done.returncode == 0, done.stderr
