"""Kernels of `decoding.gpu` as `kernel_builds` compiles them for GPUs that are not there."""

from collections.abc import Mapping
from typing import Any

from speculative_tts.decoding.gpu.arguments import Choice, Cut, JudgingConstants, RecentWindow
from speculative_tts.decoding.gpu.path_arguments import EndingConstants, PathConstants

PACKAGE = "speculative_tts.decoding.gpu.kernels"
F, D, N, I, U = "*fp32", "*fp64", "*i64", "*i32", "*u8"  # noqa: E741
ROWS = {"tokens": N, "committed": N, "done": U, "limit": N, "ends": U, "uniforms": D}
ROW = {"logits": F, "positions": N, "minimum": N, "barred": U, "stops": U, "out": F}
LAW = ROW | {
    "temperature": "fp32", "top_p": "fp32", "often": "fp32", "penalty": "fp32", "history": N,
    "scores": F, "ids": I, "stats": F, "prompted": U, "seen": U, "slot_ends": I,
}  # fmt: skip
ROUND = ROWS | {
    "probs": F, "target": F, "draft": F, "mass": F, "accepted": N, "drafted": N, "scale": F,
    "count": N, "lengths": N, "again": D, "tally": N, "sums": D, "ids": N, "start": N,
    "position": N, "positions": N, "room": N, "newest": N, "fed": N, "tolerance": D,
    "entropy": "fp32", "levels": D, "offsets": I, "groups": I, "x": F, "index": N, "out": F,
    "uniform": D, "laws": F, "block": N, "dead": U, "made": N, "lost": N, "heard": N,
}  # fmt: skip
LATTICE = LAW | ROWS | {
    "is_stop": U, "stop_ids": N, "states": I, "over": F, "likeliest": N, "alive": U, "flat": I,
    "keys": N, "seen": F, "row": F, "column": F,
    "prompted": None, "reached": F, "back": I, "block": N, "dead": U, "laws": F, "messages": F,
    "sums": D,
}  # fmt: skip
GROUP = {
    "probs": F, "target": F, "draft": F, "coarse_target": F, "coarse_draft": F, "accepted": N,
    "drafted": N, "scale": F, "offsets": I, "tokens": I, "memberships": I, "totals": F,
    "scores": F, "alone": U, "out": F,
}  # fmt: skip
COSYVOICE = {"CUT": Cut(32, 256, 32)}
LLASA = {"CUT": Cut(8, 1024, 128)}
PATH = PathConstants(
    256, 16, shared=True, boundary=True, stops=True, sample=True, dense=True, steps=0
)
PAIRS = PATH._replace(sample=False, dense=False, steps=20)
SURE = EndingConstants(2, sample=True, sure=True)
AWARE = {"CHOICE": Choice(25, 32, 256), "WINDOW": RecentWindow(10, 16, 8, 4096, again=True)}
OLDER = AWARE | {"WINDOW": RecentWindow(10, 16, 8, 4096, again=False)}
ACCEPTED = JudgingConstants(4, block=False, members=16, tile=2048)
Build = tuple[str, Mapping[str, str | None], dict[str, Any], int]
"""A kernel of a module, types of its arguments (others are i32), constants, warps."""
BUILDS: dict[str, Build] = {
    "softmax": ("laws.softmax_kernel", LAW, {"TILE": 8192}, 16),
    "nucleus": ("laws.nucleus_kernel", LAW, {"TILE": 8192}, 16),
    "prepared": ("logits.prepared_kernel", LAW, {"IN_FRAME": False, "TILE": 8192}, 16),
    "candidates": ("likeliest.candidates_kernel", LAW,
                   {"TOP": 50, "FEW": 64, "TILE": 4096, "BARS": 1}, 8),
    "few": ("likeliest.few_kernel", LAW, {"CHOICE": Choice(50, 64, 2048)}, 8),
    "repetition aware": ("repetition.repetition_aware_kernel", LAW, AWARE, 8),
    "repetition aware, older": ("repetition.repetition_aware_kernel", LAW, OLDER, 8),
    "draw": ("rounds.draw_kernel", ROUND | {"out": N}, COSYVOICE, 8),
    "drafted": ("rounds.drafted_kernel", ROUND, COSYVOICE, 8),
    "drawn": ("blocks.drawn_kernel", ROUND | {"out": N}, {"PURPOSE": 0, **COSYVOICE}, 8),
    "counted": ("blocks.counted_kernel", ROUND, {"SIZE": 4}, 1),
    "commit": ("blocks.commit_kernel", ROUND, {"SIZE": 8}, 1),
    "lookup": ("blocks.lookup_kernel", ROUND, {"SIZE": 4, "TILE": 1024}, 4),
    "inputs": ("rounds.inputs_kernel", ROUND, {"SIZE": 4}, 1),
    "accept": ("rounds.accept_kernel", ROUND, {"JUDGING": ACCEPTED, "groups": None}, 4),
    "accept blocks of groups": ("rounds.accept_kernel", ROUND,
                                {"JUDGING": ACCEPTED._replace(block=True)}, 4),
    "heads": ("lattice.heads_kernel", LATTICE,
              {"CHOICE": Choice(25, 32, 64), "ENDING": SURE}, 4),
    "union": ("lattice.union_kernel", LATTICE, {"SIZE": 256, "TILE": 16}, 8),
    "path": ("paths.path_kernel", LATTICE, {"LATTICE": PATH}, 8),
    "path, pairs": ("paths.path_kernel", LATTICE, {"LATTICE": PAIRS}, 8),
    "walk": ("paths.walk_kernel", LATTICE, {"LATTICE": PATH, **COSYVOICE}, 8),
    "settle": ("rounds.settle_kernel", ROUND | {"mass": None}, {"SIZE": 16, **LLASA}, 8),
    "settle groups": ("rounds.settle_kernel", ROUND, {"SIZE": 16, **LLASA}, 8),
    "renew": ("rounds.renew_kernel", ROUND, {"AGAIN": 3, "SIZE": 16}, 1),
    "leave": ("rounds.leave_kernel", ROUND | {"answer": U}, {"SIZE": 64}, 1),
    "pick": ("rounds.pick_kernel", ROUND, {"TILE": 1024}, 4),
    "coarse": ("groups.coarse_kernel", GROUP, {"SIZE": 64, "MEMBERS": 16}, 4),
    "residual": ("groups.residual_kernel", GROUP, {"SIZE": 64, "MEMBERS": 16}, 4),
}  # fmt: skip
