# /// probe
# asks = "Does T.Kernel take is_cpu=True?"
# means = "Code for the C target is written with that flag."
# met = "our own CPU kernels"
# truth = "The flag was removed in 0.1.12: there a launch without threads is a CPU launch. From 0.1.13 on, tilelang.cpu.language is the dialect."
# requires = ["tilelang"]
# [[expect]]
# versions = ["tilelang<0.1.12"]
# verdict = "works"
# [[expect]]
# verdict = "fails"
# match = "unexpected keyword argument 'is_cpu'"
# ///
import tilelang.language as T


@T.prim_func
def main(a: T.Tensor((64,), "float32"), b: T.Tensor((64,), "float32")):
    with T.Kernel(1, is_cpu=True) as _:
        for i in T.serial(64):
            b[i] = a[i] + 1.0


print(main)
