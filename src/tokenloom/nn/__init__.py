"""Networks, each split into `features` and `head`."""

from tokenloom.nn.base import NETWORKS as NETWORKS
from tokenloom.nn.base import Network as Network
from tokenloom.nn.base import NetworkOptions as NetworkOptions
from tokenloom.nn.base import Task as Task
from tokenloom.nn.networks import CausalTransformer as CausalTransformer
from tokenloom.nn.networks import DiT as DiT
from tokenloom.nn.networks import HollowTransformer as HollowTransformer
from tokenloom.nn.transformer import Transformer as Transformer
from tokenloom.nn.transformer import TransformerConfig as TransformerConfig
from tokenloom.nn.transformer import TransformerOptions as TransformerOptions
