"""The unsupervised, the labelled and the counting model: inference, generative, loss."""

from sdlgm.model.modules.base import Batch, Objective, Step, TrainableModule, Watched
from sdlgm.model.modules.counting import CountModule
from sdlgm.model.modules.multilabel import MultiLabelModule
from sdlgm.model.modules.unsupervised import Elbo, ModelConfig, SDLGMModule

__all__ = [
    "Batch",
    "CountModule",
    "Elbo",
    "ModelConfig",
    "MultiLabelModule",
    "Objective",
    "SDLGMModule",
    "Step",
    "TrainableModule",
    "Watched",
]
