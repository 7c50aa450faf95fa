#!/usr/bin/env python3
"""Beam search on a GPU outside heed: the peer of `heed bench translate`.

    python3 bench/torch_gpu_decode.py [--batch 256] [--beam 4] [--length 32]

Hugging Face's MarianMT (the paper's architecture) with random weights, where transformers is
installed; else, or with --own, the decoder of torch_model.py. Every translation is forced to
--length tokens, so that the weights do not matter. Prints one JSON line shaped like heed's. """

import argparse
import json
import time

from torch_model import BOS, EOS, FIRST_WORD, PAD, PRESETS, Transformer, beam_search, torch


def marian(a):
    from transformers import MarianConfig, MarianMTModel, __version__

    layers, d, ff, heads, _ = PRESETS[a.preset]
    config = MarianConfig(
        vocab_size=a.vocab,
        d_model=d,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_ffn_dim=ff,
        decoder_ffn_dim=ff,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).to(a.device, torch.bfloat16).eval()
    options = dict(num_beams=a.beam, min_new_tokens=a.length, max_new_tokens=a.length)

    @torch.inference_mode()
    def translate(src):
        return model.generate(src, length_penalty=a.alpha, **options)

    return translate, f"transformers {__version__} (Marian)"


def own(a):
    model = Transformer(a.vocab, *PRESETS[a.preset]).to(a.device, torch.bfloat16).eval()
    translate = lambda src: beam_search(model, src, a.beam, a.alpha, a.length, forced=True)
    return translate, f"torch {torch.__version__} (bench/torch_model.py)"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--preset", default="base", choices=PRESETS)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--beam", type=int, default=4)
    ap.add_argument("--alpha", type=float, default=0.6)
    ap.add_argument("--length", type=int, default=32, help="tokens in and out")
    ap.add_argument("--vocab", type=int, default=37000)
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--own", action="store_true")
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    torch.manual_seed(1)
    try:
        translate, engine = own(a) if a.own else marian(a)
    except ImportError:
        translate, engine = own(a)
    src = torch.randint(FIRST_WORD, a.vocab, (a.batch, a.length), device=a.device)
    src[:, -1] = EOS
    sync = torch.cuda.synchronize if a.device.startswith("cuda") else lambda: None
    took = []
    for _ in range(1 + a.repeat):
        sync()
        begin = time.perf_counter()
        translate(src)
        sync()
        took.append(time.perf_counter() - begin)
    seconds = min(took[1:])
    report = {
        "bench": "translate",
        "engine": engine,
        "preset": a.preset,
        "batch": a.batch,
        "beam": a.beam,
        "tokens_per_s": round(a.batch * a.length / seconds, 1),
        "p50_ms": round(1e3 * sorted(took[1:])[len(took) // 2 - 1], 3),
        "first_ms": round(1e3 * took[0], 1),
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
