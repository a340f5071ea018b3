from torch import Tensor


def scaled_dot_product_attention(q, k, v, is_causal):
    return Tensor()


def gelu(x, approximate):
    return Tensor()


def cross_entropy(logits, targets):
    return Tensor()
