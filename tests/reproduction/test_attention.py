import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reproduction import attention, attention_network
from reproduction.attention_data import Part, Tokens, part_of_texts, patches_of, vocabulary_of
from reproduction.attention_network import RULES, TASKS, Reader, fitted, measured, score_of, token_f1_of
from reproduction.attention_rules import (
    ExactK,
    GumbelTopK,
    HardKuma,
    k_subset,
    kuma_below,
    largest,
    product,
    relaxed_top_k,
    softmax_over,
)
from reproduction.pages.attention_results import page
from runs_here import run_here

TASK = replace(TASKS["sst2"], width=8, epochs=6, batch=20, rate=0.02, dropout=0.0, budget=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_tokens(n: int = 200, length: int = 8) -> Tokens:
    """Texts of neutral words with one word that says the label, which is the evidence."""
    draws = generator()
    words = torch.randint(4, 12, (n, length), generator=draws)
    labels, places = torch.randint(2, (n,), generator=draws), torch.randint(length, (n,), generator=draws)
    words[torch.arange(n), places] = 2 + labels
    evidence = F.one_hot(places, length).bool()
    half = [slice(None, n // 2), slice(n // 2, 3 * n // 4), slice(3 * n // 4, None)]
    return Tokens(
        *(Part(words[part], words[part] > 0, labels[part], evidence[part]) for part in half), n_classes=2, n_words=12
    )


def exact_marginals(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Enumerate all sets of k elements."""
    sets = list(itertools.combinations(range(len(scores)), k))
    chances = torch.stack([scores[list(members)].sum() for members in sets]).softmax(0)
    members = torch.stack([F.one_hot(torch.tensor(chosen), len(scores)).sum(0) for chosen in sets])
    return chances @ members.to(scores)


def test__k_subset__marginals_and_their_gradient__are_those_of_enumeration():
    scores = torch.tensor([[2.0, -1.0, 0.5, 9.0, 0.0]], dtype=torch.double, requires_grad=True)
    allowed = torch.tensor([[True, True, True, False, True]])
    of_loss = torch.tensor([1.0, 2.0, -1.0, 5.0, 0.5], dtype=torch.double)
    for k in (1, 2, 3, 4):
        _, marginals = k_subset(scores, allowed, k, generator())
        inside = scores[0, allowed[0]]
        expected = exact_marginals(inside, k)
        torch.testing.assert_close(marginals[0, allowed[0]], expected)
        assert marginals[0, 3] == 0
        (found,) = torch.autograd.grad(marginals[0] @ of_loss, scores, retain_graph=True)
        (wanted,) = torch.autograd.grad(expected @ of_loss[allowed[0]], scores)
        torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-6)


def test__k_subset__draws__have_exactly_k_members_with_the_marginals():
    row = torch.tensor([1.0, 0.0, -2.0, 0.5, 3.0, -1.0])
    scores, allowed = row.expand(20_000, -1), torch.ones(20_000, 6, dtype=torch.bool)
    drawn, marginals = k_subset(scores, allowed, 2, generator())
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert (drawn.sum(-1) == 2).all()
    torch.testing.assert_close(drawn.mean(0), marginals[0].detach(), atol=0.012, rtol=0)


def test__k_subset__hundreds_of_elements_and_large_scores__stay_finite():
    scores = (30 * torch.randn(3, 700, generator=generator())).requires_grad_()
    drawn, marginals = k_subset(scores, torch.ones(3, 700, dtype=torch.bool), 70, generator())
    (gradient,) = torch.autograd.grad(marginals.square().sum(), scores)
    assert (drawn.sum(-1) == 70).all()
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(marginals.sum(-1), torch.full((3,), 70.0))


def test__product__of_polynomials__is_numpys():
    left, right = torch.rand(2, 3, 4, generator=generator()), torch.rand(2, 3, 5, generator=generator(1))
    found = product(left, right, 6)
    for place in itertools.product(range(2), range(3)):
        wanted = np.polynomial.polynomial.polymul(left[place].numpy(), right[place].numpy())
        np.testing.assert_allclose(found[place].numpy(), wanted[:7], rtol=1e-5)


def test__hardkuma__probability_of_zero__is_that_of_draws():
    a, b = torch.tensor(0.7), torch.tensor(1.6)
    rule = HardKuma(1.0, generator())
    uniform = torch.rand(40_000, generator=generator())
    drawn = rule.stretched((1 - (1 - uniform) ** (1 / b)) ** (1 / a))
    absent = kuma_below((0 - rule.LOW) / (rule.HIGH - rule.LOW), a, b)
    assert float((drawn <= 0).float().mean()) == pytest.approx(float(absent), abs=0.01)
    # The mean is what evaluation takes if a value in between is the most probable.
    value = rule.most_probable(a, b, torch.tensor(0.0))
    assert float(value) in (1.0, pytest.approx(float(drawn.mean()), abs=0.01))


def test__hardkuma__more_tokens_than_the_target__raises_the_multiplier():
    rule, allowed = HardKuma(0.5, generator()), torch.ones(2, 10, dtype=torch.bool)
    for score, sign in ((3.0, 1), (-6.0, -1)):
        before = float(rule.multiplier)
        penalty = rule(torch.full((2, 10, 2), score) * torch.tensor([1.0, -1.0]), torch.tensor(0.0), allowed, 4).penalty
        assert sign * (float(rule.multiplier) - before) >= 0
        assert float(penalty) == pytest.approx(0.0, abs=0.1)
    assert float(rule.multiplier) == 0.0


def test__relaxed_top_k__low_temperature__is_the_top_k():
    keys = torch.rand(5, 9, generator=generator()).argsort(-1).float()  # none are close to each other
    allowed = torch.ones(5, 9, dtype=torch.bool)
    allowed[:, 7:] = False
    relaxed = relaxed_top_k(keys, allowed, 3, 0.02)
    torch.testing.assert_close(relaxed, largest(keys, allowed, 3), atol=1e-2, rtol=0)
    torch.testing.assert_close(relaxed_top_k(keys, allowed, 3, 1.0).sum(-1), torch.full((5,), 3.0))


@pytest.mark.parametrize("rule", [GumbelTopK, ExactK])
def test__rules_with_exactly_k__training__draw_k_tokens_with_a_gradient_for_all(rule):
    scores = torch.randn(6, 7, 1, generator=generator()).requires_grad_()
    attended = rule(1.0, generator())(scores, torch.tensor(0.0), torch.ones(6, 7, dtype=torch.bool), 3)
    assert ((attended.weights[:, :-1] > 0).sum(-1) == 3).all()
    (gradient,) = torch.autograd.grad((attended.weights[:, :-1] * torch.arange(7.0)).sum(), scores)
    assert (gradient != 0).all()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("training", [True, False])
def test__rules__any__weights_add_up_to_one_and_leave_out_what_is_not_allowed(name, training):
    rule = RULES[name](1.0, generator()).train(training)
    scores = torch.randn(4, 6, rule.n_scores, generator=generator())
    allowed = torch.ones(4, 6, dtype=torch.bool)
    allowed[:, 4:] = False
    allowed[1:, 3:] = False
    weights = rule(scores, torch.tensor(0.5), allowed, 2).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(4))
    assert (weights[:, :-1][~allowed] == 0).all()
    if attention.SYSTEMS[name].has_budget:
        assert ((weights[:, :-1] > 0).sum(-1) <= 2).all()


def test__softmax_over__all_tokens__is_the_softmax_with_the_null_token():
    scores, null = torch.tensor([[1.0, -2.0, 40.0]]), torch.tensor(0.3)
    expected = torch.tensor([[1.0, -2.0, 40.0, 0.3]]).softmax(-1)
    torch.testing.assert_close(softmax_over(scores, null, torch.ones(1, 3)), expected)


class OneWord(nn.Module):
    """A model that reads one word: 2 is for class 0, 3 for class 1, and with neither the classes are as likely."""

    task = replace(TASK, batch=1)

    def forward(self, tokens, allowed, budget, *, cut=False):
        del budget, cut
        says = ((tokens == 3) & allowed).sum(-1).float() - ((tokens == 2) & allowed).sum(-1).float()
        logits = torch.stack([torch.zeros_like(says), says * np.log(3.0)], dim=-1)
        return logits, ((tokens == 2) | (tokens == 3)) * allowed * 1.0, 0.0


def test__measured__tiny_case__has_the_values_of_hand():
    tokens = torch.tensor([[2, 5, 6, 7], [5, 3, 6, 0]])
    evidence = torch.tensor([[True, True, False, False], [False, False, True, False]])
    part = Part(tokens, tokens > 0, torch.tensor([0, 0]), evidence)
    found = measured(OneWord(), part)  # type: ignore[arg-type]
    assert found.score == 0.5
    assert found.mean_active == 1
    assert found.max_active == 1
    assert found.mean_share == pytest.approx((1 / 4 + 1 / 3) / 2)
    assert found.token_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert found.sufficiency == pytest.approx(0.0, abs=1e-6)
    assert found.comprehensiveness == pytest.approx(0.75 - 0.5)


def test__token_f1__nothing_chosen__is_one_only_without_evidence():
    chosen = torch.zeros(2, 3, dtype=torch.bool)
    evidence = torch.tensor([[False, False, False], [True, False, False]])
    assert token_f1_of(chosen, evidence).tolist() == [1.0, 0.0]


def test__score_of__counts__is_the_mean_absolute_error():
    assert score_of("count_error", torch.tensor([1, 3, 5]), torch.tensor([1, 5, 4])) == (1.0, -1.0)


@pytest.mark.parametrize("name", ["sst2", "movies", "digits"])
def test__budget_of__all_data__holds_for_the_shortest_row(name):
    lengths = torch.tensor([57, 64, 60])
    assert TASKS[name].budget_of(lengths) == {"sst2": 5, "movies": 5, "digits": 8}[name]


def test__reader__tokens_left_out__have_no_part_in_the_decision():
    data = made_tokens()
    model = Reader(data, TASK, RULES["softmax"](1.0, generator())).eval()
    tokens, allowed = data.test.tokens[:3], data.test.allowed[:3].clone()
    allowed[:, 3] = False
    other = tokens.clone()
    other[:, 3] = 3
    torch.testing.assert_close(model(tokens, allowed, 2)[0], model(other, allowed, 2)[0])


@pytest.mark.parametrize("name", RULES)
def test__fitted__made_texts__finds_the_word_that_matters(name):
    data = made_tokens()
    model = fitted(data, TASK, name, attention.SYSTEMS[name].grid[0], seed=0, gate_scale=4.0)
    found = measured(model, data.test, cut=not attention.SYSTEMS[name].has_budget)
    assert found.score > 0.9
    assert found.max_active <= 2
    again = fitted(data, TASK, name, attention.SYSTEMS[name].grid[0], seed=0, gate_scale=4.0)
    assert measured(again, data.test, cut=not attention.SYSTEMS[name].has_budget) == found


def test__part_of_texts__spans__are_the_evidence_and_rare_words_are_one():
    texts = [["a", "good", "film", "a"], ["good", "film"]]
    vocabulary = vocabulary_of(texts)
    assert vocabulary == {"a": 2, "film": 3, "good": 4}
    part = part_of_texts([["a", "bad", "film"], ["good"]], [0, 1], [[[1, 3]], []], vocabulary)
    assert part.tokens.tolist() == [[2, 1, 3], [4, 0, 0]]
    assert part.evidence is not None
    assert part.evidence.tolist() == [[False, True, True], [False, False, False]]
    assert part.lengths.tolist() == [3, 1]


def test__patches_of__picture__are_its_squares_row_by_row():
    picture = np.arange(14 * 21, dtype=np.float32).reshape(1, 14, 21)
    patches, grid = patches_of(picture)
    assert grid == (2, 3)
    np.testing.assert_array_equal(patches[0, 4].reshape(7, 7), picture[0, 7:14, 7:14])


def test__reproduce_attention__made_texts__chooses_repeats_and_keeps_other_rows(monkeypatch, tmp_path):
    for module in (attention, attention_network):
        monkeypatch.setattr(module, "TASKS", {"sst2": replace(TASK, epochs=2)})
    monkeypatch.setattr(attention, "load_tokens", lambda _: made_tokens())
    monkeypatch.setattr(attention, "run_all", run_here)
    out = tmp_path / "attention.json"
    options = {"data": ["sst2"], "seeds": 2, "n_jobs": 1, "work_folder": tmp_path}
    attention.reproduce_attention(out, systems=["softmax"], **options)
    result = attention.reproduce_attention(out, systems=["sdlgm"], **options)
    assert result == json.loads(out.read_text(encoding="utf-8"))
    rows = {row["system"]: row for row in result["rows"]}
    assert list(rows) == ["softmax", "softmax_cut", "sdlgm"]
    assert all(len(row["score"]) == 2 for row in rows.values())
    assert max(rows["softmax_cut"]["max_active"]) <= 2 < max(rows["softmax"]["max_active"])
    assert "SST-2" in page(result)


def row(data: str, system: str, score: list[float], token_f1: float | None, active: float, **other) -> dict:
    return {
        "data": data,
        "system": system,
        "title": system,
        "within_budget": True,
        "score": score,
        "token_f1": [token_f1],
        "sufficiency": [0.1],
        "comprehensiveness": [0.2],
        "mean_active": [active],
        "mean_share": [0.1],
        "max_active": [5],
        "max_share": [0.5],
        **other,
    }


def test__page__rows_of_json__says_how_far_each_goal_is():
    rows = [
        row("sst2", "softmax", [0.8], None, 20.0, within_budget=False),
        row("sst2", "top_k", [0.75], None, 5.0),
        row("sst2", "sdlgm", [0.76, 0.80], None, 3.0),
        row("movies", "simple", [0.85], 0.25, 70.0),
        row("movies", "sdlgm", [0.82], 0.375, 50.0),
        row("digits", "top_k", [0.5], None, 8.0),
        row("digits", "gumbel", [0.75], None, 8.0),
        row("digits", "sdlgm", [0.5], None, 4.0),
    ]
    data = {name: vars(source) for name, source in attention.SOURCES.items()}
    facts = {"versions": {"numpy": "2"}, "command": "python -m reproduction attention", "cores": 2}
    text = page({"data": data, "rows": rows, "protocol": {"rows": "all"}, **facts})
    assert "preliminary: some rows have 1 seed of 5" in text
    some = page({"data": {"sst2": data["sst2"]}, "rows": rows[:3], "protocol": {}, **facts})
    assert "- **Movie reviews**: not measured yet." in some
    assert "of softmax over all words**: missed by 0.5 points: 97.5%, with 3.0 words" in text
    assert "SST-2, ahead of every peer within the budget by score**: met, +3.0 points to top_k" in text
    assert "macro F1 of at least 0.90**: missed by 8.0 points: 0.820" in text
    assert "token F1 of at least 0.33**: met: 0.375" in text
    assert "Movie reviews, ahead of every peer within the budget by score**: missed, -3.0 points to simple" in text
    assert "Movie reviews, ahead of every peer within the budget by token F1**: met, +12.5 points to simple" in text
    assert "met: an error of 0.50 with 4.0 patches; the peers within the budget with no larger error use at" in text
