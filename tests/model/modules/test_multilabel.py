"""The objective of the model with labels, compared with sums over all labels and latent features."""

import itertools

import torch
from torch import Tensor, nn

from sdlgm.gradients import GRADIENTS, Draw
from sdlgm.gradients.straight_through import StraightThrough
from sdlgm.model import Batch, Noise
from sdlgm.model.codes import SubsetDistribution
from sdlgm.model.modules import MultiLabelModule, Step
from sdlgm.model.networks.multilabel import LabelPosterior, MultiLabelConfig


def config(**changes) -> MultiLabelConfig:
    base = {
        "n_inputs": 4,
        "n_labels": 2,
        "n_slots": 2,
        "variant": "con",
        "form": "subset",
        "n_latent": 2,
        "hidden": (5,),
        "activation": "silu",
        "dropout": 0.0,
        "input_dropout": 0.0,
        "reconstruction_weight": 0.7,
        "n_members": 1,
        "gate_temperature": 1.0,
        "feature_temperature": 1.0,
    }
    return MultiLabelConfig(**{**base, **changes})


def module_of(**changes) -> MultiLabelModule:
    torch.manual_seed(0)
    module = MultiLabelModule(config(**changes)).double()
    module.adapt_to(torch.tensor([0.4, 0.2], dtype=torch.float64), torch.ones(4, dtype=torch.bool))
    return module


SETS = torch.tensor(list(itertools.product((0.0, 1.0), repeat=2)), dtype=torch.float64)
# The same for each of two rows. Probabilities are quarters, so a list of sixteen sets can have them exactly.
LABEL_PROBS = torch.tensor([[0.25, 0.5], [0.75, 0.25]], dtype=torch.float64)
LATENT_PROBS = torch.tensor([[0.5, 0.75], [0.25, 0.25]], dtype=torch.float64)


class FixedEncoder(nn.Module):
    """An encoder with the same posterior for any two observations."""

    def __init__(self):
        super().__init__()
        self.found = LabelPosterior(*(SubsetDistribution(torch.logit(p), 2) for p in (LABEL_PROBS, LATENT_PROBS)))

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> LabelPosterior:
        return self.found


class AllPairs(StraightThrough):
    """Draw 256 pairs of labels and latent features, each pair as often as its probability says."""

    def __init__(self, labels: SubsetDistribution):
        super().__init__(0)
        self.labels = labels

    def draw(self, posterior, *, n_samples, temperatures, noise):
        numbers = 16 * posterior.log_prob(SETS[:, None].expand(-1, 2, -1)).exp()  # of each set, for each row
        rows = [SETS.repeat_interleave(row.round().long(), dim=0) for row in numbers.T]
        codes = torch.stack(rows, dim=1)
        assert len(codes) == 16
        return Draw(codes.repeat(16, 1, 1) if posterior is self.labels else codes.repeat_interleave(16, dim=0))


def test__loss__all_pairs_drawn__equals_the_objective_term_by_term():
    """Every term is written out, for one row with labels and one without."""
    module = module_of()
    module.posterior = FixedEncoder()
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    labelled = torch.tensor([1.0, 0.0], dtype=torch.float64)
    posterior = module.inference(x)
    step = Step(AllPairs(posterior.labels), "exact", 0.6, 256, Noise.seeded(0))
    objective = module.loss(Batch(x, y, labelled), step)

    def log_q(q, s):
        return q.log_prob(s.expand(1, 2, 2))[0]

    def log_p(prior, s):
        return prior.log_prob(s.expand(2, 2))

    def log_x(s, u):
        return module.log_likelihood(x, torch.cat([s, u]).expand(1, 2, 4))[0]

    q_y, q_u = posterior.labels, posterior.unnamed
    p_y, p_u = module.prior.labels(), module.prior.unnamed()
    bound = torch.zeros(2, dtype=torch.float64)
    conditional = torch.zeros(2, dtype=torch.float64)
    for u in SETS:
        weight_u = log_q(q_u, u).exp()
        conditional += weight_u * (log_x(y[0], u) - 0.6 * (log_q(q_u, u) - log_p(p_u, u)))
        for s in SETS:
            weight = weight_u * log_q(q_y, s).exp()
            cost = log_q(q_u, u) - log_p(p_u, u) + log_q(q_y, s) - log_p(p_y, s)
            bound += weight * (log_x(s, u) - 0.6 * cost)
    expected = 0.7 * bound + labelled * (log_q(q_y, y[0]) + 0.7 * conditional)
    torch.testing.assert_close(objective.value, expected)


def test__loss__dis__is_the_log_probability_of_the_labels():
    module = module_of(variant="dis", form="multinomial")
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    step = Step(GRADIENTS["reinmax"](module.n_logits), "exact", 1.0, 1, Noise.seeded(0))
    objective = module.loss(Batch(x, y, torch.ones(3)), step)
    labels = module.inference(x).labels
    total = labels.n_slots
    binomial = torch.distributions.Multinomial(total, probs=labels.probs, validate_args=False)
    counts = torch.cat([total - y.sum(-1, keepdim=True), y], dim=-1)
    torch.testing.assert_close(objective.value, binomial.log_prob(counts))


def test__adapt_to__frequencies__are_the_first_predictions():
    frequencies = torch.tensor([0.4, 0.2], dtype=torch.float64)
    for form in ("subset", "closed_form", "multinomial"):
        module = module_of(form=form, n_slots=5)
        with torch.no_grad():
            for parameter in module.posterior.trunk.parameters():
                parameter.zero_()
            presence = module.presence(torch.zeros(1, 4, dtype=torch.float64), n_samples=1, noise=Noise.seeded(0))
        torch.testing.assert_close(presence[0], frequencies, atol=2e-3, rtol=0)
