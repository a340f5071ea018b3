#!/usr/bin/env python3
"""A GPT-2's training step in PyTorch on one GPU, compiled, with SDPA and fused AdamW: what gpu_check.sh holds our step against.

Weights fp32, products bf16 (autocast), as our --dtype=bf16. Prints a JSON object after each step that counts, of all of them so far:
tokens_per_s, step_s_median, peak_device_bytes; so what was measured stays where its time is over. Where there is no PyTorch, or it
sees no GPU, {"left_out": why}, and exit code 3.

    gpu_peer.py --layers=12 --heads=12 --width=768 --batch=32 --steps=20
    gpu_peer.py --device=cpu --layers=1 --heads=2 --width=16 --context=8 --vocab=64 --batch=2 --steps=2    # to try it out
"""
import argparse
import json
import statistics
import sys
import time

WARM_UP = 3


def leave_out(why):
    print(json.dumps({"left_out": f"{why} ({sys.executable}): put the python3 that has PyTorch for this GPU first in PATH"}))
    sys.exit(3)


try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    leave_out(f"no PyTorch: {error}")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.context, a.width)
        self.blocks = nn.ModuleList(Block(a.width, a.heads) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.wte.weight

    def forward(self, x, y):
        h = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.ln_f(h)).flatten(0, 1), y.flatten())


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=12, heads=12, width=768, context=1024, vocab=50304, batch=32, steps=20).items():
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return p.parse_args()


def report(a, seconds, loss):
    median = statistics.median(seconds)
    peak = torch.cuda.max_memory_allocated() if a.device == "cuda" else None
    print(json.dumps({"peer": "PyTorch " + torch.__version__, "device": a.device, "tokens_per_s": a.batch * a.context / median,
                      "step_s_median": median, "steps": len(seconds), "last_loss": loss.item(), "peak_device_bytes": peak}),
          flush=True)


def main():
    a = arguments()
    if a.device == "cuda" and not torch.cuda.is_available():
        leave_out(f"PyTorch {torch.__version__} sees no GPU")
    synchronize = torch.cuda.synchronize if a.device == "cuda" else lambda: None
    torch.manual_seed(1)
    model = Gpt(a).to(a.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    step_of = torch.compile(model)
    tokens = torch.randint(0, a.vocab, (a.steps + WARM_UP, a.batch, a.context + 1)).to(a.device)
    seconds = []
    for i in range(a.steps + WARM_UP):
        synchronize()
        start = time.perf_counter()
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = step_of(tokens[i, :, :-1], tokens[i, :, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize()
        if i >= WARM_UP:
            seconds.append(time.perf_counter() - start)
            report(a, seconds, loss)


main()
