"""What kvpress keeps of one row of tokens, as JSON.

Loads a GGUF file into transformers as F32, reads the row once with every press asked for, and writes
    {"n": tokens, "logits": [n_vocab] after the last of them,
     "kept": {press: [n_layer][n_head_kv][kept positions, ascending]}}.
"""

import argparse
import json
import os
import types
import unittest.mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import kvpress
import kvpress.presses.kvzip_press
import torch
import transformers


def tova(ratio):
    return kvpress.TOVAPress(compression_ratio=ratio)


def snapkv(ratio):
    return kvpress.SnapKVPress(compression_ratio=ratio)


def expected(ratio):
    return kvpress.ExpectedAttentionPress(compression_ratio=ratio)


class ExactLeverage(kvpress.LeverageScorePress):
    """The press with the identity for its random sketch."""

    @staticmethod
    def compute_leverage_scores(key_states, _):
        d = key_states.shape[-1]
        identity = torch.eye(d) * d**0.5  # the press divides by this root
        with unittest.mock.patch("torch.randn", lambda *_, **__: identity):
            return kvpress.LeverageScorePress.compute_leverage_scores(key_states, d)


def exact_compactor(ratio):
    press = kvpress.CompactorPress(compression_ratio=ratio)
    press._leverage_press = ExactLeverage(compression_ratio=ratio)
    return press


# Name of a press, as the tests write it, to how it is made. Defaults unless the name says otherwise.
PRESSES = {
    "StreamingLLM": lambda c: kvpress.StreamingLLMPress(compression_ratio=c),
    "Knorm": lambda c: kvpress.KnormPress(compression_ratio=c),
    "KeyDiff": lambda c: kvpress.KeyDiffPress(compression_ratio=c),
    "LagKV": lambda c: kvpress.LagKVPress(compression_ratio=c),
    "TOVA": tova,
    "ObservedAttention": lambda c: kvpress.ObservedAttentionPress(compression_ratio=c),
    "SnapKV": snapkv,
    "PyramidKV(window 8)": lambda c: kvpress.PyramidKVPress(compression_ratio=c, window_size=8),
    "ExpectedAttention": expected,
    "KVzip": lambda c: kvpress.KVzipPress(compression_ratio=c),
    "KVgrad": lambda c: kvpress.KVgradPress(compression_ratio=c),
    "LeverageScore": lambda c: kvpress.LeverageScorePress(compression_ratio=c),
    "LeverageScore(no sketch)": lambda c: ExactLeverage(compression_ratio=c),
    "Compactor": lambda c: kvpress.CompactorPress(compression_ratio=c),
    "Compactor(no sketch)": exact_compactor,
    "AdaKV(SnapKV)": lambda c: kvpress.AdaKVPress(snapkv(c)),
    "AdaKV(ExpectedAttention)": lambda c: kvpress.AdaKVPress(expected(c)),
    "AdaKV(KeyDiff)": lambda c: kvpress.AdaKVPress(kvpress.KeyDiffPress(compression_ratio=c)),
    "CriticalKV(TOVA)": lambda c: kvpress.CriticalKVPress(tova(c)),
    "CriticalKV(SnapKV)": lambda c: kvpress.CriticalKVPress(snapkv(c)),
    "CriticalAdaKV(SnapKV)": lambda c: kvpress.CriticalAdaKVPress(snapkv(c)),
    "ChunkKV(SnapKV)": lambda c: kvpress.ChunkKVPress(snapkv(c)),
}
NEED_WEIGHTS = {"ObservedAttention"}  # presses that read the attention that the model computed


def load(path, threads):
    torch.set_num_threads(threads)
    transformers.utils.logging.disable_progress_bar()
    folder, name = os.path.split(os.path.abspath(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, attn_implementation="sdpa"
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tokenizer.chat_template = None  # the row is plain text: no part of it belongs to a template
    # The presses that write a request look their tokenizer up by the model's name.
    kvpress.presses.kvzip_press.AutoTokenizer = types.SimpleNamespace(
        from_pretrained=lambda *_: tokenizer
    )
    return model.eval()


def read_row(path, row_id, count):
    with open(path, encoding="utf-8") as rows:
        for row in map(json.loads, filter(str.strip, rows)):
            if not row_id or row["id"] == row_id:
                return torch.tensor([row["context_ids"][:count]])
    raise SystemExit(f"{path} has no row {row_id}")


def prefill(model, ids, press=None):
    """The cache after reading `ids`, and the state of their last position."""
    for layer in model.model.layers:
        layer.self_attn.masked_key_indices = None
    cache = transformers.DynamicCache()
    with torch.no_grad():
        if press is None:
            return cache, model.model(input_ids=ids, past_key_values=cache).last_hidden_state[:, -1]
        with press(model):
            model.model(input_ids=ids, past_key_values=cache)
    return cache, None


def positions_of(kept, full):
    """Where the rows of `kept` [k, head_dim] stand in `full` [n, head_dim]."""
    places = {row.numpy().tobytes(): i for i, row in enumerate(full)}
    return sorted(places[row.numpy().tobytes()] for row in kept)


def kept_of_layer(module, keys, full):
    """Presses with a budget a head only mark what goes; the others leave it out of the cache."""
    n_head_kv, n = full.shape[0], full.shape[1]
    if module.masked_key_indices is None:
        return [positions_of(keys[h], full[h]) for h in range(n_head_kv)]
    _, heads, gone = module.masked_key_indices
    stays = torch.ones(n_head_kv, n, dtype=torch.bool)
    stays[heads, gone] = False
    return [row.nonzero().flatten().tolist() for row in stays]


def kept_by(model, ids, press, full):
    cache, _ = prefill(model, ids, press)
    return [
        kept_of_layer(layer.self_attn, cache.layers[i].keys[0].detach(), full.layers[i].keys[0])
        for i, layer in enumerate(model.model.layers)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--rows", required=True, help="JSONL with the field context_ids")
    parser.add_argument("--row", default="", help="id of the row; the first one unless given")
    parser.add_argument("--tokens", type=int, default=None, help="read only so many of the row")
    parser.add_argument("--keep", type=float, default=0.25, help="kept share")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", required=True)
    parser.add_argument("press", nargs="*", help=f"all unless given: {', '.join(PRESSES)}")
    options = parser.parse_args()

    model = load(options.model, options.threads)
    ids = read_row(options.rows, options.row, options.tokens)
    full, state = prefill(model, ids)
    out = {"n": ids.shape[1], "logits": model.lm_head(state)[0].tolist(), "kept": {}}
    for name in options.press or PRESSES:
        if name in NEED_WEIGHTS:
            model.set_attn_implementation("eager")
        whole = prefill(model, ids)[0] if name in NEED_WEIGHTS else full
        out["kept"][name] = kept_by(model, ids, PRESSES[name](1 - options.keep), whole)
        model.set_attn_implementation("sdpa")
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(out, file)


main()
