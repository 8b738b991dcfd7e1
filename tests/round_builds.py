"""Kernels of `decoding.gpu` as `kernel_builds` compiles them for GPUs that are not there."""

from typing import Any

from speculative_tts.decoding.gpu.path_constants import PathConstants

PACKAGE = "speculative_tts.decoding.gpu.kernels"
F, D, N, I, U = "*fp32", "*fp64", "*i64", "*i32", "*u8"  # noqa: E741
ROW = {"logits": F, "positions": N, "minimum": N, "barred": U, "stops": U, "out": F}
LAW = ROW | {
    "temperature": "fp32", "top_p": "fp32", "often": "fp32", "penalty": "fp32", "history": N,
    "values": F, "ids": I, "stats": F, "prompted": U, "seen": U, "slot_ends": I,
}  # fmt: skip
ROUND = {
    "probs": F, "target": F, "draft": F, "mass": F, "accepted": N, "drafted": N, "scale": F,
    "tokens": N, "count": N, "lengths": N, "limit": N, "done": U, "ends": U, "uniforms": D,
    "again": D, "tally": N, "sums": D, "ids": N, "start": N, "position": N, "positions": N,
    "room": N, "newest": N, "fed": N, "tolerance": D, "entropy": "fp32", "levels": D, "offsets": I,
    "groups": I, "x": F, "index": N, "out": F, "uniform": D,
    "laws": F, "block": N, "dead": U, "made": N, "lost": N, "heard": N,
}  # fmt: skip
LATTICE = LAW | {
    "is_stop": U, "stop_ids": N, "states": I, "over": F, "ends": N, "alive": U, "flat": I,
    "keys": N, "seen": F, "row": F, "column": F, "tokens": N, "count": N, "uniforms": D,
    "prompted": N, "reached": F, "back": I, "block": N, "dead": U, "laws": F, "messages": F,
    "sums": D,
}  # fmt: skip
GROUP = {
    "probs": F, "target": F, "draft": F, "coarse_target": F, "coarse_draft": F, "accepted": N,
    "drafted": N, "scale": F, "offsets": I, "tokens": I, "memberships": I, "totals": F,
    "scores": F, "alone": U, "out": F,
}  # fmt: skip
COSYVOICE = {"LINES": 32, "LINE": 256, "ALL": 32}
LLASA = {"LINES": 8, "LINE": 1024, "ALL": 128}
CHOSEN = {"TOP": 50, "FEW": 64}
PATH = PathConstants(256, 16, shared=True, boundary=True, stops=True, dense=True, steps=0)
PAIRS = PATH._replace(dense=False, steps=20)
ENDING = {"PROMPTED": False, "DRAFTS": True, "ACCEPT": 1, "NEXT": 3}
SETTLED = {"DRAFTED": True, "RETRY": True, "SIZE": 16}
Build = tuple[str, dict[str, str], dict[str, Any], int]
"""A kernel of a module, types of its arguments (others are i32), constants, warps."""
BUILDS: dict[str, Build] = {
    "softmax": ("laws.softmax_kernel", LAW, {"ENDS": True, "TILE": 8192}, 16),
    "nucleus": ("laws.nucleus_kernel", LAW, {"ENDS": True, "TILE": 8192}, 16),
    "prepared": ("logits.prepared_kernel", LAW,
                 {"PENALTY": True, "FRAMES": True, "IN_FRAME": False, "TILE": 8192}, 16),
    "candidates": ("likeliest.candidates_kernel", LAW, {**CHOSEN, "TILE": 4096, "BARS": 1}, 8),
    "few": ("likeliest.few_kernel", LAW,
            {**CHOSEN, "WIDE": 2048, "NUCLEUS": True, "ENDS": True}, 8),
    "repetition aware": ("repetition.repetition_aware_kernel", LAW,
                         {"TOP": 25, "FEW": 32, "WIDE": 256, "PARTS": 8, "WINDOW": 10,
                          "PLACES": 16, "TILE": 4096, "AGAIN": True}, 8),
    "repetition aware, older": ("repetition.repetition_aware_kernel", LAW,
                                {"TOP": 25, "FEW": 32, "WIDE": 256, "PARTS": 8, "WINDOW": 10,
                                 "PLACES": 16, "TILE": 4096, "AGAIN": False}, 8),
    "draw": ("rounds.draw_kernel", ROUND | {"out": N}, COSYVOICE, 8),
    "drafted": ("rounds.drafted_kernel", ROUND, {"DOUBTS": True, **COSYVOICE}, 8),
    "drawn": ("blocks.drawn_kernel", ROUND | {"out": N}, {"PURPOSE": 0, **COSYVOICE}, 8),
    "counted": ("blocks.counted_kernel", ROUND, {"SIZE": 4}, 1),
    "commit": ("blocks.commit_kernel", ROUND, {"SIZE": 8, "DEAD": True}, 1),
    "lookup": ("blocks.lookup_kernel", ROUND, {"SIZE": 4, "TILE": 1024}, 4),
    "inputs": ("rounds.inputs_kernel", ROUND, {"SIZE": 4}, 1),
    "accept": ("rounds.accept_kernel", ROUND, {"SIZE": 4, "GROUPS": False, "BLOCK": False,
               "MEMBERS": 16, "TILE": 2048}, 4),
    "accept blocks of groups": ("rounds.accept_kernel", ROUND, {"SIZE": 4, "GROUPS": True,
                                "BLOCK": True, "MEMBERS": 16, "TILE": 2048}, 4),
    "heads": ("lattice.heads_kernel", LATTICE,
              {"TOP": 25, "FEW": 32, "WIDE": 64, "STOPS": 2, "SAMPLE": True, "SURE": True}, 4),
    "union": ("lattice.union_kernel", LATTICE, {"SIZE": 256, "TILE": 16}, 8),
    "path": ("paths.path_kernel", LATTICE, {"LATTICE": PATH, **ENDING, "SAMPLE": True}, 8),
    "path, pairs": ("paths.path_kernel", LATTICE, {"LATTICE": PAIRS, **ENDING, "SAMPLE": False}, 8),
    "walk": ("paths.walk_kernel", LATTICE, {"LATTICE": PATH, "DRAFT": 0, **COSYVOICE}, 8),
    "settle": ("rounds.settle_kernel", ROUND, {"RESIDUAL": True, **SETTLED, **LLASA}, 8),
    "settle groups": ("rounds.settle_kernel", ROUND, {"RESIDUAL": False, **SETTLED, **LLASA}, 8),
    "renew": ("rounds.renew_kernel", ROUND, {"AGAIN": 3, "SIZE": 16}, 1),
    "leave": ("rounds.leave_kernel", ROUND | {"answer": U}, {"SIZE": 64}, 1),
    "pick": ("rounds.pick_kernel", ROUND, {"TILE": 1024}, 4),
    "coarse": ("groups.coarse_kernel", GROUP, {"SIZE": 64, "MEMBERS": 16}, 4),
    "residual": ("groups.residual_kernel", GROUP,
                 {"SIZE": 64, "MEMBERS": 16, "TINY": 1.1754943508222875e-38}, 4),
}  # fmt: skip
