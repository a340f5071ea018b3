import types

from torch import Module

LayerNorm = Linear = Embedding = Module
ModuleList = list
init = types.SimpleNamespace(normal_=lambda tensor, std: None)
utils = types.SimpleNamespace(clip_grad_norm_=lambda parameters, most: None)
