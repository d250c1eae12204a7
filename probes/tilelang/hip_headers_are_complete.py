# /// probe
# asks = "Does the wheel bring every header that its HIP source includes, beyond those of HIP itself?"
# means = "Generated HIP source compiles with hipcc alone."
# met = "our own ROCm image: fatal error: 'rocwmma/rocwmma.hpp' file not found"
# platforms = ["rocm"]
# truth = "The wheel's common.h includes rocWMMA, uses nothing of it and does not bring it. A stub header is enough."
# requires = ["tilelang"]
# [[expect]]
# verdict = "fails"
# match = 'rocwmma/rocwmma\.hpp'
# ///
import re
from importlib.util import find_spec
from pathlib import Path

package = Path(find_spec("tilelang").submodule_search_locations[0])
headers = package / "src" / "tl_templates" / "hip"
included = set(re.findall(r"^\s*#\s*include\s*<(\w+/[\w./]+)>", (headers / "common.h").read_text(), re.MULTILINE))
lacking = [name for name in sorted(included) if not name.startswith("hip/") and not list(package.rglob(name))]
assert not lacking, f"tl_templates/hip/common.h includes what neither the wheel nor HIP brings: {lacking}"
