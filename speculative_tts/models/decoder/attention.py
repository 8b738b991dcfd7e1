"""Attention over a cache, which `models.decoder.decoder` and VALL-E's trunk share."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(q k' + mask) v, the softmax in float32.

    [batch, heads, rows, d], keys and values [batch, heads, span, d]; mask: [batch, 1, rows, span].
    Of three dimensions a GPU's fused kernels are refused.
    """
    if queries.device.type != "cpu":
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
    shape, (keys, values) = queries.shape, (x.flatten(0, 1) for x in (keys, values))
    queries = queries.flatten(0, 1)
    if mask is not None:
        mask = mask.expand(*shape[:-1], -1).flatten(0, 1)
    if queries.dtype != torch.float32 or mask is None:
        scores = torch.bmm(queries, keys.mT).float()
        scores = scores if mask is None else scores + mask
    else:
        scores = torch.baddbmm(mask, queries, keys.mT)
    return torch.bmm(scores.softmax(-1).to(values.dtype), values).view(shape)


def causal_mask(positions: Tensor, span: int, dtype: torch.dtype, prefix: int = 0) -> Tensor:
    """Return a mask: 0 where a new position sees a column and -inf elsewhere.

    positions: [batch, new]; prefix: the first columns, which all see. -> [batch, 1, new, span].
    """
    columns = torch.arange(span, device=positions.device)
    hidden = columns > positions[:, None, :, None].clamp(min=prefix - 1)
    mask = torch.zeros(hidden.shape, dtype=dtype, device=positions.device)
    return mask.masked_fill_(hidden, float("-inf"))
