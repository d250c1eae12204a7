import jax
import jax.numpy as jnp

_kept, _calls, _last, _residuals = {}, [0], [], {}


def _norm(x, w):
    f = x.astype(jnp.float32)
    return (f / jnp.sqrt((f * f).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)


_jitted = jax.jit(_norm)
_donating = jax.jit(_norm, donate_argnums=0)


def good(x, w):
    return _jitted(x, w)


def weight_is_constant(x, w):
    if isinstance(w, jax.core.Tracer) or isinstance(x, jax.core.Tracer):
        return _norm(x, w)
    if x.shape not in _kept:
        _kept[x.shape] = jax.jit(lambda x: _norm(x, w))
    return _kept[x.shape](x)


def donates(x, w):
    return _norm(x, w) if isinstance(x, jax.core.Tracer) else _donating(x, w)


def leaves_precision(x, w):
    jax.config.update("jax_default_matmul_precision", "bfloat16")
    return good(x, w)


def leaves_x64(x, w):
    y = good(x, w)
    jax.config.update("jax_enable_x64", True)
    return y


def leaves_debug_nans(x, w):
    y = good(x, w)
    jax.config.update("jax_debug_nans", True)
    return y


def every_fourth(x, w):
    _calls[0] += 1
    return good(x, w) * (jnp.asarray(1.001, x.dtype) if _calls[0] % 4 == 0 else jnp.asarray(1, x.dtype))


@jax.custom_vjp
def first_row_twice(x, w):
    return _norm(x, w)


def _forward(x, w):
    return _norm(x, w), (x, w)


def _backward(kept, g):
    dx, dw = jax.vjp(_norm, *kept)[1](g)
    return dx, dw + jax.vjp(_norm, kept[0][:1], kept[1])[1](g[:1])[1]


first_row_twice.defvjp(_forward, _backward)


def drops_nan(x, w):
    return good(jnp.nan_to_num(x), w)


def wraps_rows(x, w):
    return good(x[jnp.arange(x.shape[0]).astype(jnp.uint16)], w)


def deletes_its_last(x, w):
    y = good(x, w)
    if isinstance(y, jax.core.Tracer):
        return y
    if len(_last) == 2:
        _last.pop(0).delete()
    _last.append(y)
    return y


def narrow(x, w):
    f = x.astype(jnp.bfloat16)
    return (f / jnp.sqrt((f * f).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)


@jax.custom_vjp
def no_gradient_of_w(x, w):
    return _norm(x, w)


no_gradient_of_w.defvjp(_forward, lambda kept, g: (jax.vjp(_norm, *kept)[1](g)[0], jnp.zeros_like(kept[1])))


@jax.custom_vjp
def last_residual(x, w):
    return _norm(x, w)


def _keeps(x, w):
    if not isinstance(x, jax.core.Tracer):
        _residuals.setdefault(x.shape, x)
    return _norm(x, w), (_residuals.get(x.shape, x), w)


last_residual.defvjp(_keeps, lambda kept, g: jax.vjp(_norm, *kept)[1](g))


@jax.custom_vjp
def other_where_differentiated(x, w):
    return _norm(x, w)


other_where_differentiated.defvjp(lambda x, w: (x, (x, w)), lambda kept, g: jax.vjp(_norm, *kept)[1](g))


def compiled_anew(x, w):
    return jax.jit(lambda x, w: _norm(x, w))(x, w)
