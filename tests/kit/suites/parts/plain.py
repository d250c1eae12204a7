"""The equations of RMSNorm and of its gradients; no kernel may import them."""

KERNELS_MAY_NOT = ("plain",)


def norm(x, gain, eps):
    r = ((x**2).mean(-1) + eps) ** -0.5
    y = x * r[:, None]
    return (y if gain is None else y * gain), r


def gradients(x, gain, r, grad_y, eps):
    r = norm(x, None, eps)[1][:, None]
    through = grad_y if gain is None else grad_y * gain
    dx = r * (through - x * r**2 * (through * x).mean(-1, keepdims=True))
    return dx, None if gain is None else (grad_y * x * r).sum(0)
