"""Settings by name."""

from collections.abc import Mapping
from types import MappingProxyType

PAPER: Mapping[str, object] = MappingProxyType(
    {
        "likelihood": "bernoulli",
        "prior": "slots",
        "posterior": "shared",
        "gradient": "gumbel_softmax",
        "kl": "paper",
        "gate_prior": 0.5,
        "learn_prior": False,
        "learn_temperature": True,
        "hidden": (512, 384, 256),
        "activation": "relu",
        "normalize_logits": False,
        "share_layers": False,
        "gate_hidden": (256, 64),
        "kl_warmup": 0.0,
        "learning_rate": 1e-3,
        "lr_decay": 0.0,
        "early_stopping": False,
    }
)
"""The model and the training of the paper: all parameters of `sdlgm.SDLGM` whose default may differ from it.

``SDLGM(**PAPER)`` has the sizes of the paper for MNIST too, given here or as defaults. The paper does not name its
activation function.
"""
