"""What optax makes of the same parameters and gradients, and of the same schedules.
usage: optim_peer.py run DIRECTORY DTYPE STEPS [NAME ...] | schedules CASES"""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
# Most of the time goes into compiling what runs for a moment.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib
from optax._src import factorized

SHAPES = {"scalar": (), "a.weight": (5, 13), "a.bias": (13,), "b.weight": (13, 5), "column.weight": (17, 1),
          "wide.weight": (130, 140), "experts.weight": (2, 9, 6)}
KEEP = (1, 2, 5, 10, 50, 100)


def mask(keep):
    return lambda tree: {path: keep(path) for path in tree}


def is_weight(path):
    return path.endswith("weight")


def label(path):
    return "first" if path.startswith("a.") else "second"


def cosine():
    """With a count of the widest float, or it would be computed in float32."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, 5e-3, 10, 80, 1e-3)
    return lambda count: schedule(jnp.asarray(count, jnp.result_type(float)))


CASES = {
    "adamw": lambda: optax.adamw(2e-3),
    "adamw_options": lambda: optax.adamw(3e-3, b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.1),
    "adamw_mask": lambda: optax.adamw(2e-3, weight_decay=0.1, mask=mask(is_weight)),
    "adamw_nesterov": lambda: optax.adamw(2e-3, weight_decay=0.01, nesterov=True),
    "adamw_eps_root": lambda: optax.adamw(2e-3, eps_root=1e-6),
    "adamw_schedule": lambda: optax.adamw(cosine()),
    "adam": lambda: optax.adam(2e-3),
    "scale_by_adam": lambda: optax.chain(optax.scale_by_adam(), optax.scale(-2e-3)),
    "sgd": lambda: optax.sgd(1e-2),
    "sgd_momentum": lambda: optax.sgd(1e-3, momentum=0.9),
    "sgd_nesterov": lambda: optax.sgd(cosine(), momentum=0.8, nesterov=True),
    "lion": lambda: optax.lion(1e-3),
    "lion_mask": lambda: optax.lion(cosine(), b1=0.95, b2=0.98, weight_decay=0.1, mask=mask(is_weight)),
    "rmsprop": lambda: optax.rmsprop(1e-3),
    "rmsprop_kinds": lambda: optax.multi_transform(
        {"a": optax.rmsprop(1e-3, decay=0.8, momentum=0.9, nesterov=True, initial_scale=0.5),
         "b": optax.rmsprop(1e-3, centered=True, eps=1e-4, eps_in_sqrt=False, initial_scale=1.0),
         "other": optax.rmsprop(1e-3, bias_correction=True, eps_in_sqrt=False)},
        lambda tree: {path: path[0] if path[:2] in ("a.", "b.") else "other" for path in tree}),
    "adafactor": lambda: optax.adafactor(1e-2),
    "adafactor_without_a_rate": lambda: optax.chain(optax.adafactor(None, min_dim_size_to_factor=2), optax.scale(1e-2)),
    "adafactor_small": lambda: optax.adafactor(cosine(), min_dim_size_to_factor=2),
    "adafactor_options": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=4, decay_rate=0.7, momentum=0.9,
                                                 dtype_momentum=jnp.result_type(float),
                                                 multiply_by_parameter_scale=False, clipping_threshold=0.5,
                                                 weight_decay_rate=1e-3, weight_decay_mask=mask(is_weight)),
    "adafactor_plain": lambda: optax.adafactor(1e-2, factored=False, clipping_threshold=None),
    "muon": lambda: contrib.muon(2e-3),
    "muon_options": lambda: contrib.muon(cosine(), ns_coeffs="dion", beta=0.9, weight_decay=0.1,
                                         weight_decay_mask=mask(is_weight), nesterov=False, consistent_rms=0.2,
                                         adam_b1=0.8, adam_b2=0.95, adam_weight_decay=0.05),
    "muon_kinds": lambda: optax.multi_transform(
        {"a": contrib.muon(2e-3, preconditioning="aol", ns_steps=4),
         "b": contrib.muon(2e-3, preconditioning="schatten"),
         "other": contrib.muon(2e-3, preconditioning="spectral")},
        lambda tree: {path: path[0] if path[:2] in ("a.", "b.") else "other" for path in tree}),
    "muon_adaptive": lambda: contrib.muon(1e-3, adaptive=True),
    "clip": lambda: optax.chain(optax.clip(0.3), optax.sgd(1e-2)),
    "clip_by_global_norm": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(1e-2)),
    "clip_by_a_norm_that_is_not_reached": lambda: optax.chain(optax.clip_by_global_norm(1e6), optax.sgd(1e-2)),
    "clip_by_block_rms": lambda: optax.chain(optax.clip_by_block_rms(0.7), optax.sgd(1e-2)),
    "clip_adamw": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3, weight_decay=0.01)),
    "pieces": lambda: optax.chain(optax.trace(0.9, nesterov=True), optax.ema(0.8),
                                  optax.add_decayed_weights(0.01, mask(is_weight)), optax.scale_by_param_block_rms(),
                                  optax.scale_by_schedule(cosine()), optax.scale(-1.0)),
    "masked": lambda: optax.chain(optax.masked(optax.adamw(2e-3), mask(is_weight)), optax.scale(1e-2)),
    "multi_transform": lambda: optax.multi_transform(
        {"first": optax.adamw(2e-3), "second": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1e-2, 0.9))},
        lambda tree: {path: label(path) for path in tree}),
    "frozen": lambda: optax.multi_transform({"first": optax.set_to_zero(), "second": optax.lion(1e-3)},
                                            lambda tree: {path: label(path) for path in tree}),
    "multi_steps": lambda: optax.MultiSteps(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-3)), 3,
                                            accumulator_dtype=jnp.result_type(float)).gradient_transformation(),
    "multi_steps_sum": lambda: optax.MultiSteps(optax.sgd(1e-3, 0.9), 4, use_grad_mean=False,
                                                accumulator_dtype=jnp.result_type(float)).gradient_transformation(),
    "inject_hyperparams": lambda: optax.inject_hyperparams(optax.adamw)(learning_rate=cosine(), weight_decay=0.02),
    "apply_if_finite": lambda: optax.apply_if_finite(optax.adamw(2e-3), 2),
}


def draw(dtype, steps):
    """Parameters, and gradients of changing size with zeros among them."""
    rng = np.random.default_rng(7)
    params = {path: (1 + 0.5 * rng.normal(size=shape)).astype(dtype) for path, shape in SHAPES.items()}
    gradients = []
    for step in range(steps):
        gradients.append({})
        for path, shape in SHAPES.items():
            size = np.exp(rng.normal() - 1)
            gradients[-1][path] = (rng.normal(size=shape) * size * (rng.random(shape) > 0.1)).astype(dtype)
    return params, gradients


def run(directory, dtype, steps, names):
    from safetensors.numpy import save_file

    dtype = np.dtype(dtype)
    jax.config.update("jax_enable_x64", dtype == np.float64)
    if dtype == np.float64:  # adafactor's decay as it is, but for a count of float32
        function = factorized.scale_by_factored_rms
        function.__defaults__ = (*function.__defaults__[:-1],
                                 lambda i, exponent=0.8: 1.0 - jnp.asarray(i + 1, jnp.float64) ** (-exponent))
    params, gradients = draw(dtype, steps)
    bad = [dict(g) for g in gradients]
    for step, value in ((3, np.inf), (4, np.nan), (20, np.inf), (21, np.inf), (22, -np.inf), (23, np.nan)):
        spoiled = bad[step]["b.weight"].copy()
        spoiled[2, 3] = value
        bad[step]["b.weight"] = spoiled
    bad[22] = gradients[22]  # two bad steps in a row, then a good one
    out = {f"params/{path}": value for path, value in params.items()}
    for name, trees in (("gradients", gradients), ("bad", bad)):
        for step, tree in enumerate(trees):
            out |= {f"{name}/{step}/{path}": value for path, value in tree.items()}
    for name in names or CASES:
        tx = CASES[name]()
        given = bad if name == "apply_if_finite" else gradients

        def advance(carry, gradient, tx=tx):
            params, state = carry
            updates, state = tx.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
            return (params, state), params

        stacked = {path: jnp.stack([g[path] for g in given]) for path in SHAPES}
        start = {path: jnp.asarray(value) for path, value in params.items()}
        _, history = jax.jit(lambda p, g, tx=tx: jax.lax.scan(advance, (p, tx.init(p)), g))(start, stacked)
        for path in SHAPES:
            values = np.asarray(history[path])
            for step in KEEP:
                if step <= steps:
                    out[f"{name}/{step}/{path}"] = np.ascontiguousarray(values[step - 1])
    save_file({k: np.ascontiguousarray(v).reshape(np.shape(v)) for k, v in out.items()},
              os.path.join(directory, "optim.safetensors"))


def schedules(cases):
    """[[function, keywords, steps], ...] -> values. join_schedules takes [[function, keywords], ...] and boundaries."""
    jax.config.update("jax_enable_x64", True)

    def make(function, keywords):
        keywords = dict(keywords)
        if "boundaries_and_scales" in keywords:
            keywords["boundaries_and_scales"] = {int(k): v for k, v in keywords["boundaries_and_scales"].items()}
        if function == "join_schedules":
            return optax.join_schedules([make(*s) for s in keywords["schedules"]], keywords["boundaries"])
        return getattr(optax, function)(**keywords)

    out = []
    for function, keywords, steps in cases:
        schedule = make(function, keywords)
        out.append([float(schedule(jnp.asarray(step))) for step in steps])
    return out


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
    else:
        print(json.dumps(schedules(json.loads(sys.argv[2]))))
