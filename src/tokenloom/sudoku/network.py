r"""A network for grids that treats no digit and no line specially: a vector for every candidate (cell, digit).

The rules of a Sudoku are that every cell holds one digit and every unit (row, column, box) every digit once: sets of
candidates of which one is true.  A block tells each candidate the mean over its cell and over its digit in its units,

    h_{l,d} <- h_{l,d} + gate C relu( A u_{l,d} + B mean_{e} u_{l,e} + sum_r D_r mean_{m in unit_r(l)} u_{m,d} ),

u the normalised h, modulated by the time.  Relabelling the digits or moving the cells by a symmetry of the units does
the same to the output, so nothing of this has to be learnt.  The blocks are applied `loops` times, as deduction is.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.base import NETWORKS, Hidden, Task
from tokenloom.nn.block import Condition, Modulation, modulate
from tokenloom.nn.conditioning import FEATURES, Fusion, evidence_features
from tokenloom.nn.transformer import Transformer, TransformerConfig, TransformerOptions
from tokenloom.sudoku.solver import cell_units
from tokenloom.types import Flags, PerPosition, Tokens

Candidates = Float[Tensor, "batch candidates width"]
Units = Float[Tensor, "units cells"]


@dataclass(frozen=True)
class GridOptions(TransformerOptions):
    """The size of a grid network; `width` is the size of a candidate's vector, and heads are not used."""

    kind: str = "grid"
    width: int = 32
    loops: int = 4
    best_fusion: ClassVar[Fusion] = TransformerConfig.fusion
    """The grid network reads U in its own way, as flags of its candidates."""

    def build(self, task: Task) -> nn.Module:
        if task.relations is None:
            raise ValueError(f"--network.kind grid needs a grid, and {task.data} has no relations")
        return GridNetwork(self.config(task, rotary=False), task.relations)


@NETWORKS.register("grid")
class GridNetwork(Transformer):
    """Rounds of messages between cells that are related, such as by `grid_relations`."""

    Options = GridOptions

    def __init__(self, config: TransformerConfig, relations: Bool[Tensor, "kinds length length"]) -> None:
        if config.fusion != "shared_mlp":
            raise ValueError(f"a grid network reads U as flags of its candidates, without fusion {config.fusion}")
        super().__init__(config)
        condition = config.condition if config.time else None
        digits, width = config.vocab_size, config.width
        if self.reads_evidence:
            self.embedding = CandidateEvidence(digits, width)
        else:
            self.embedding = CandidateEmbedding(digits, width, config.absorbing)
        self.head = CandidateHead(digits, width)
        units = units_of(relations)
        self.relations: Tensor
        self.units: Tensor
        self.register_buffer("relations", relations, persistent=False)
        self.register_buffer("units", torch.cat(units), persistent=False)
        self.blocks = nn.ModuleList(GridBlock(digits, width, condition, len(units)) for _ in range(config.depth))

    def constants(self) -> dict[str, Tensor]:
        return {"relations": self.relations}

    def _check_length(self, length: int) -> None:
        if length != self.config.length:
            raise ValueError(f"this network reads grids of {self.config.length} cells, got {length}")

    def loop(self, x: Hidden, condition: Condition) -> Hidden:
        for block in self.blocks:
            x = block(x, condition, self.units)
        return x


class CandidateEmbedding(nn.Module):
    """Embeds each candidate by three flags, [batch, cells * K]: x_t says it, it is given, U says it."""

    def __init__(self, digits: int, width: int, absorbing: bool) -> None:
        super().__init__()
        self.digits, self.absorbing = digits, absorbing
        self.linear = nn.Linear(4 if absorbing else 3, width)

    def forward(self, tokens: Tokens, absorbing: Tokens | None, given: Flags | None) -> Candidates:
        digit = torch.arange(self.digits, device=tokens.device)
        said = tokens.unsqueeze(-1) == digit
        given = torch.zeros_like(said) if given is None else given.unsqueeze(-1).expand_as(said)
        flags = [said, given & said, given & ~said]
        if self.absorbing and absorbing is not None:
            flags.append(absorbing.unsqueeze(-1) == digit)
        result: Tensor = self.linear(torch.stack(flags, -1).flatten(1, 2).to(self.linear.weight.dtype))
        return result


class CandidateEvidence(nn.Module):
    """Embeds the evidence of each candidate by phi (`nn/conditioning.py`), where x_t says it and where it does not."""

    def __init__(self, digits: int, width: int) -> None:
        super().__init__()
        self.digits = digits
        self.linear = nn.Linear(2 * FEATURES, width)

    def forward(self, tokens: Tokens, evidence: PerPosition) -> Candidates:
        said = (tokens.unsqueeze(-1) == torch.arange(self.digits, device=tokens.device)).unsqueeze(-1)
        phi = evidence_features(evidence).to(self.linear.weight.dtype).unsqueeze(2)
        result: Tensor = self.linear(torch.cat([phi * said, phi * ~said], -1).flatten(1, 2))
        return result


class CandidateHead(nn.Module):
    """A linear head whose logit of a digit reads that digit's vector, all with the same weights; zero at first."""

    is_linear = True
    bias = None  # a constant cancels in the softmax

    def __init__(self, digits: int, width: int) -> None:
        super().__init__()
        self.digits = digits
        self.read = nn.Parameter(torch.zeros(width))

    @property
    def weight(self) -> Float[Tensor, "digits features"]:
        """The head as a matrix on the features of a cell."""
        return torch.kron(torch.eye(self.digits, device=self.read.device, dtype=self.read.dtype), self.read[None])

    def forward(self, features: Float[Tensor, "*rows features"]) -> Float[Tensor, "*rows digits"]:
        return features.reshape(*features.shape[:-1], self.digits, -1) @ self.read


class GridBlock(nn.Module):
    """One round of messages, with a hidden size of 4 width behind a gate that starts closed."""

    def __init__(self, digits: int, width: int, condition: int | None, kinds: int) -> None:
        super().__init__()
        self.digits, self.kinds = digits, kinds
        self.norm = nn.LayerNorm(width, bias=False)
        self.expand = nn.Linear(width, 4 * width)
        self.from_cell = nn.Linear(width, 4 * width, bias=False)
        self.from_units = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(kinds))
        self.contract = nn.Linear(4 * width, width)
        self.modulation = Modulation(condition, width, 3)

    def forward(self, x: Hidden, condition: Condition, units: Units) -> Hidden:
        shift, scale, gate = self.modulation(condition)
        u = modulate(self.norm(x), shift, scale)
        batch, digits, cells = len(x), self.digits, units.shape[1]
        by_cell = u.view(batch, cells, digits, -1)
        # units hold 1 / sqrt(size): once to gather and once to spread make a mean
        gathered = (units @ by_cell.flatten(2)).view(batch, -1, digits, x.shape[2]).chunk(self.kinds, 1)
        messages = torch.cat([linear(part) for linear, part in zip(self.from_units, gathered, strict=True)], 1)
        spread = units.T.expand(batch, -1, -1)
        hidden = self.expand(by_cell).flatten(2).baddbmm_(spread, messages.flatten(2))
        hidden = hidden.view(batch, cells, digits, -1).add_(self.from_cell(by_cell.mean(2, keepdim=True))).relu_()
        return torch.addcmul(x, gate, self.contract(hidden.flatten(1, 2)))


def units_of(relations: Bool[Tensor, "kinds length length"]) -> list[Units]:
    """Return the classes of each relation with more than one cell per class, one row of unit norm per class."""
    classes = [torch.unique(flags, dim=0).float() for flags in relations]
    found = [part / part.sum(1, keepdim=True).sqrt() for part in classes if len(part) < relations.shape[1]]
    if not found or len({len(part) for part in found}) > 1:
        raise ValueError(f"a grid needs relations with equally many classes, got {[len(part) for part in found]}")
    return found


def grid_relations(side: int) -> Bool[Tensor, "4 cells cells"]:
    """Return flags of same row, same column, same box and itself, for the cells of a grid in reading order."""
    keys = (*torch.tensor(cell_units(side)).unbind(1), torch.arange(side * side))
    return torch.stack([key[:, None] == key for key in keys])
