"""The peers of the SDLGM: a Gumbel-Softmax VAE, a plain SDLGM, a top-k autoencoder, and the bare matrix products.

All have `step(batch)`, one training iteration on a batch.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, kl_divergence

from sdlgm.model import Batch, Noise, SDLGMModule
from sdlgm.model.networks.layers import logit_norm, mlp
from sdlgm.train import binarize

PIXELS = 784
HIDDEN = (512, 384, 256)
GATE_HIDDEN = (256, 64)
N_FEATURES = 200
N_SLOTS = 40


class GumbelSoftmaxVAE:
    """Categorical VAE, 20 latents of 10 classes (Jang, Gu and Poole, ICLR 2017), with the tricks that we know.

    The networks are those of the SDLGM but for the gate network, which it does not need; noise from uniform numbers
    and two logarithms, closed-form KL, fused Adam, and the same fast binarisation.
    """

    N_LATENTS, N_CLASSES = 20, 10

    def __init__(self, activation: str, *, normalize_logits: bool):
        self.encoder = mlp([PIXELS, *HIDDEN, N_FEATURES], activation)
        self.normalize = logit_norm(N_FEATURES, normalize_logits)
        self.decoder = mlp([N_FEATURES, *reversed(HIDDEN), PIXELS], activation)
        self.temperature = 1.0
        parameters = [*self.encoder.parameters(), *self.normalize.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.Adam(parameters, fused=True)
        self.noise = Noise.seeded(0)

    def step(self, batch: Batch) -> None:
        x = binarize(batch.x, "dynamic", self.noise)
        logits = self.normalize(self.encoder(x)).view(-1, self.N_LATENTS, self.N_CLASSES)
        log_probs = logits.log_softmax(-1)
        kl = (log_probs.exp() * log_probs).sum((1, 2)) + self.N_LATENTS * math.log(self.N_CLASSES)
        uniform = torch.rand(log_probs.shape, generator=self.noise.generator).clamp_(1e-38, 1 - 6e-8)
        noise = uniform.log_().neg_().log_()
        relaxed = ((log_probs - noise) / self.temperature).softmax(-1)
        output = self.decoder(relaxed.flatten(1))
        negative_log_likelihood = F.binary_cross_entropy_with_logits(output, x, reduction="none").sum(-1)
        loss = (kl + negative_log_likelihood).mean()
        if not math.isfinite(loss.item()):
            raise ArithmeticError("the loss is not finite")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class PlainSDLGM:
    """The paper's model as its reader would write it in PyTorch, with nothing but what the library's front has."""

    def __init__(self):
        self.features = mlp([PIXELS, *HIDDEN, N_FEATURES], "relu")
        self.gates = mlp([PIXELS, *GATE_HIDDEN, 2], "relu")
        self.decoder = mlp([N_FEATURES, *reversed(HIDDEN), PIXELS], "relu")
        self.log_temperatures = nn.Parameter(torch.zeros(2))
        networks = nn.ModuleList([self.features, self.gates, self.decoder])
        self.optimizer = torch.optim.Adam([*networks.parameters(), self.log_temperatures], lr=1e-3)

    def step(self, batch: Batch) -> None:
        x = torch.bernoulli(batch.x)
        gate_logits, feature_logits = self.gates(x), self.features(x)
        gate_temperature, feature_temperature = self.log_temperatures.exp()
        gates = self._relaxed(gate_logits, gate_temperature)[..., :1]
        features = self._relaxed(feature_logits, feature_temperature)
        code = (gates * features).sum(1)
        log_likelihood = Bernoulli(logits=self.decoder(code), validate_args=False).log_prob(x).sum(-1)
        kl_gates = kl_divergence(Categorical(logits=gate_logits), Categorical(logits=torch.zeros_like(gate_logits)))
        kl_features = kl_divergence(
            Categorical(logits=feature_logits), Categorical(logits=torch.zeros_like(feature_logits))
        )
        loss = (N_SLOTS * (kl_gates + kl_features) - log_likelihood).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @staticmethod
    def _relaxed(logits: Tensor, temperature: Tensor) -> Tensor:
        """A Gumbel-Softmax draw for each slot."""
        slots = logits.unsqueeze(1).expand(-1, N_SLOTS, -1)
        return F.gumbel_softmax(slots, tau=temperature, dim=-1)  # pyright: ignore[reportArgumentType]


class TopKAutoencoder:
    """A top-k sparse autoencoder (Makhzani and Frey, ICLR 2014) with a hidden layer in encoder and decoder."""

    def __init__(self, n_inputs: int, n_features: int, n_active: int, hidden: int):
        self.n_active = n_active
        self.encoder = mlp([n_inputs, hidden, n_features], "silu")
        self.decoder = mlp([n_features, hidden, n_inputs], "silu")
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()], fused=True)

    def step(self, batch: Batch) -> None:
        activations = self.encoder(batch.x).relu()
        largest, places = activations.topk(self.n_active, dim=-1, sorted=False)
        codes = torch.zeros_like(activations).scatter(-1, places, largest)
        loss = (self.decoder(codes) - batch.x).square().sum(-1).mean()
        if not math.isfinite(loss.item()):
            raise ArithmeticError("the loss is not finite")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class BareProducts:
    """The limit: the matrix products of a module's linear layers, forward and backward, and the fused optimiser."""

    def __init__(self, module: SDLGMModule, batch_size: int):
        layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
        self.weights = [nn.Parameter(layer.weight.detach().clone()) for layer in layers.values()]
        self.biases = [nn.Parameter(layer.bias.detach().clone()) for layer in layers.values()]
        self.inputs = [torch.randn(batch_size, layer.in_features) for layer in layers.values()]
        self.output_gradients = [torch.randn(batch_size, layer.out_features) for layer in layers.values()]
        # Nobody needs the gradient with respect to the observations.
        self.needs_input_gradient = [name != "posterior.encoder.trunk.0" for name in layers]
        for bias in self.biases:
            bias.grad = torch.zeros_like(bias)
        self.optimizer = torch.optim.Adam([*self.weights, *self.biases], fused=True)

    @torch.no_grad()
    def step(self, batch: Batch) -> None:
        for x, weight, bias in zip(self.inputs, self.weights, self.biases, strict=True):
            F.linear(x, weight, bias)
        for x, weight, gradient, needed in zip(
            self.inputs, self.weights, self.output_gradients, self.needs_input_gradient, strict=True
        ):
            weight.grad = gradient.t() @ x
            if needed:
                torch.mm(gradient, weight)
        self.optimizer.step()
