"""Tasks in the other forms that ``verify`` reads, each with candidates and what the verdict must be."""

import json

GPU_MODE = {
    "task.yml": """
lang: "py"
description:
  Squares of two vectors, added.
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "reference.py", "source": "reference.py"}
config:
  main: "eval.py"
tests:
  - {"size": 127, "rows": 5, "seed": 4242}
  # a larger one
  - {size: 1024; rows: 8; seed: 5236}
benchmarks:
  - {"size": 1048576, "rows": 1024, "seed": 54352}
ranking_by: "geom"
""",
    "task.py": "import torch\ninput_t = tuple[torch.Tensor, torch.Tensor]\n",
    "reference.py": """
import torch
from task import input_t
def generate_input(size, rows, seed):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return tuple(torch.randn(rows, size, device="cuda", generator=gen) for _ in range(2))
def ref_kernel(data):
    a, b = data
    return (a * a + b * b).cuda()
""",
}
CHECKED = "\ndef check_implementation(data, output):\n    return ''\n"
SUBMISSION = "import torch\nfrom task import input_t\ndef custom_kernel(data):\n    a, b = data\n    return {}\n"
IMPLEMENTATION = "import torch\ndef logsumexp__default_kernel_impl(x, dim, keepdim=False):\n    return {}\n"
STABLE = "x.amax(dim, keepdim=keepdim) + (x - x.amax(dim, keepdim=True)).exp().sum(dim, keepdim=keepdim).log()"
DEFINITION = {
    "name": "rmsnorm_h64",
    "op_type": "rmsnorm",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 64}},
    "inputs": {
        "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
    "reference": "import torch\n\n@torch.no_grad()\ndef run(hidden_states, weight, eps):\n"
    "    x = hidden_states.to(torch.float32)\n    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)\n"
    "    return (x * weight.to(torch.float32)).to(torch.bfloat16)\n",
}
NORM = "import torch\nfrom helper import wide\ndef run(hidden_states, weight, eps):\n    x = wide(hidden_states)\n"
NORM += "    return (x / (x * x).mean(-1, keepdim=True).add({}).sqrt() * wide(weight)).to(hidden_states.dtype)\n"


GIVEN = (
    NORM.replace("eps):", "eps, output):").replace("return (", "output{rows} = (").replace(".dtype)", ".dtype){rows}")
)


def solution(eps, text=NORM, rows="", **spec):
    sources = {"main.py": text.format(eps, rows=rows), "helper.py": "def wide(x):\n    return x.float()\n"}
    told = [{"path": path, "content": text} for path, text in sources.items()]
    spec = {"language": "python", "entry_point": "main.py::run", **spec}
    return {"name": "s", "definition": DEFINITION["name"], "spec": spec, "sources": told}


def written(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


def forms(folder):
    """Write the files; return the lines, each with the verdict that it must have."""
    task = written(folder / "sums", GPU_MODE)
    checked = written(folder / "checked", {**GPU_MODE, "reference.py": GPU_MODE["reference.py"] + CHECKED})
    right, wrong = SUBMISSION.format("a.square() + b.square()"), SUBMISSION.format("a.square() + b.abs()")
    for at in (task, checked):
        written(at, {"submission.py": right, "wrong.py": wrong})
    lines = [(task, task, "right"), (task / "wrong.py", task, "wrong"), (checked / "wrong.py", checked, "not decided")]
    for name, body, verdict in (
        ("good", STABLE, "right"),
        ("naive", "x.exp().sum(dim, keepdim=keepdim).log()", "wrong"),
    ):
        text = {"logsumexp__default_implementation_v1.py": IMPLEMENTATION.format(body)}
        at = written(folder / name / "logsumexp__default", text)
        lines.append((at, at, verdict))
    load = {"axes": {"batch_size": 2}, "inputs": {"eps": {"type": "scalar", "value": 0.1}}}
    told = {"definition.json": DEFINITION, "loads.jsonl": {"definition": "", "workload": load}}
    told |= {"right.json": solution("eps"), "wrong.json": solution("1e-6")}
    told |= {"given.json": solution("eps", GIVEN, "[:]", destination_passing_style=True)}
    told |= {"unsaid.json": solution("eps", GIVEN, "[:]"), "unwritten.json": solution("eps", GIVEN, "[:-1]")}
    at = written(folder / "norm", told)
    words = {"against": str(at / "definition.json"), "inputs": str(at / "loads.jsonl")}
    asked = [{"candidate": str(a), "against": str(b), "id": f"{a.relative_to(folder)} {v}"} for a, b, v in lines]
    of_solutions = {"right": "right", "wrong": "wrong", "given": "right", "unsaid": "right", "unwritten": "wrong"}
    for name, verdict in of_solutions.items():
        asked.append({"candidate": str(at / f"{name}.json"), **words, "id": f"{name}.json {verdict}"})
    return asked
