"""A product of few rows is that of the layer, and only the plain layer takes the short way."""

import pytest
import torch
from torch import Tensor, nn

from tokenloom.nn.products import FEW, LARGE, linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 2, FEW, FEW + 1])
def test_few_rows_give_what_the_layer_gives(rows: int, bias: bool) -> None:
    layer, x = nn.Linear(8, LARGE, bias=bias).double(), torch.randn(rows, 8).double()
    with torch.no_grad():
        found = linear(layer, x)
        torch.testing.assert_close(found, layer(x))
    assert found.is_contiguous()


def test_a_layer_of_another_kind_or_with_a_hook_is_called() -> None:
    class Doubled(nn.Linear):
        def forward(self, features: Tensor) -> Tensor:
            return 2 * super().forward(features)

    x = torch.randn(2, 8)
    with torch.no_grad():
        own = Doubled(8, LARGE)
        assert torch.equal(linear(own, x), own(x))
        plain = nn.Linear(8, LARGE)
        expected = plain(x)
        plain.register_forward_hook(lambda module, inputs, output: 3 * output)
        torch.testing.assert_close(linear(plain, x), 3 * expected)


def test_a_gradient_goes_through_the_layer() -> None:
    layer, x = nn.Linear(8, LARGE), torch.randn(2, 8, requires_grad=True)
    assert linear(layer, x).requires_grad
