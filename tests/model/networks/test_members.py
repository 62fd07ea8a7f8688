"""Members of an ensemble are independent networks."""

import torch

from sdlgm.model.networks.members import MemberLayers


def test__member_layers__each_member__equals_a_network_of_its_own():
    torch.manual_seed(0)
    layers = MemberLayers(3, [4, 5, 2], activation="silu")
    x = torch.randn(7, 4)
    together = layers(x.expand(3, 7, 4), None)
    for member in range(3):
        alone = x
        for layer in layers.layers:
            alone = torch.nn.functional.silu(alone @ layer.weight[member] + layer.bias[member])
        torch.testing.assert_close(together[member], alone)
