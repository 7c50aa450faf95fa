#!/usr/bin/env python3
"""Models of transformers with the widths of real ones, random weights: heed must agree.

    tests/import/huggingface.py HEED [FOLDER]

Each is saved by PyTorch and safetensors, imported, and compared: log-probabilities of every token
within 1e-4, the same greedy translations. One model is saved in all containers, which must give the
same bytes. Needs torch, transformers, safetensors, sentencepiece and numpy, and 4 GB of memory;
exit status 77 without them. FOLDER keeps what is written; otherwise it goes.
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
try:
    import torch
    import transformers  # noqa: F401: what import_models wants
    import import_models as made
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LONGEST = 8
WITHIN = 1e-4
LETTERS = "abdeiknorst"


def run(heed, *args, text=None):
    done = subprocess.run([heed, *args], input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"heed {' '.join(args)}: {done.stderr}")
    return done.stdout.splitlines()


class Case:
    """A model and how texts become its ids: marks before the source and after the start."""

    def __init__(self, kind, tokens, spm, options=(), before=(), start=(), banned=(), **settings):
        self.spm, self.tokens, self.options = spm, tokens, list(options)
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.end, self.unk = self.ids["</s>"], self.ids["<unk>"]
        self.before, self.start, self.banned = list(before), list(start), list(banned)
        self.known = None
        pad = self.ids["<pad>"]
        self.model = made.hf_model(
            kind, 1, vocab_size=len(tokens), pad_token_id=pad, eos_token_id=self.end,
            decoder_start_token_id=start[0], bos_token_id=None, forced_eos_token_id=self.end,
            max_position_embeddings=256, **settings)
        g = self.model.generation_config
        g.num_beams, g.max_length = 1, 256
        g.bad_words_ids = [[i] for i in banned]

    def encode(self, text):
        return [self.ids.get(p, self.unk) for p in self.spm.encode(text, out_type=str)]

    def answers(self, sources, targets):
        """Scores of the pairs; greedy translations, None where a choice was close."""
        if self.known:
            return self.known
        ask = made.hf_answers(self.model, self.start)
        scores, texts = [], []
        for source, target in zip(sources, targets):
            src, tgt, written, close = self.before + self.encode(source) + [self.end], \
                self.encode(target), [], False
            scores.append([p[t] for p, t in zip(ask(src, tgt), tgt + [self.end])])
            while len(self.start) - 1 + len(written) < LONGEST:  # a forced token counts
                last = ask(src, written)[-1].copy()
                last[self.banned] = -1e9
                best = last.argsort()[::-1]
                close |= last[best[0]] - last[best[1]] < 0.01
                if best[0] == self.end:
                    break
                written.append(int(best[0]))
            known = [self.tokens[i] for i in written if self.spm.piece_to_id(self.tokens[i])
                     != self.spm.unk_id()]
            texts.append(None if close or len(known) != len(written) else self.spm.decode(known))
        self.known = scores, texts
        return self.known


def compare(heed, name, case, model, folder):
    """Imports the model and compares it with transformers'."""
    sources, targets = made.sentences(11, 8, LETTERS), made.sentences(12, 8, LETTERS)
    out, src, tgt = (os.path.join(folder, f) for f in (name + ".heed", "src", "tgt"))
    run(heed, "import", model, "--out", out, "--quiet", "--overwrite")
    for path, lines in ((src, sources), (tgt, targets)):
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
    want, texts = case.answers(sources, targets)
    got = run(heed, "score", "--model", out, "--src", src, "--tgt", tgt, "--token-scores",
              "--quiet", *case.options)
    worst = 0
    for line, theirs in zip(got, want):
        ours = [float(x) for x in line.split("\t")[1].split()]
        if len(ours) != len(theirs):
            raise SystemExit(f"{name}: {len(ours)} tokens, not {len(theirs)}")
        worst = max([worst] + [abs(a - b) for a, b in zip(ours, theirs)])
    written = run(heed, "translate", "--model", out, "--beam", "1", "--max-length", str(LONGEST),
                  "--max-extra", "100", "--quiet", *case.options,
                  text="\n".join(sources) + "\n")
    fair = [(a, b) for a, b in zip(written, texts) if b is not None]
    same = sum(a == b for a, b in fair)
    print(f"{name}: within {worst:.2g}, {same} of {len(fair)} translations equal", flush=True)
    if worst > WITHIN or same < len(fair) or len(got) != len(want) or not fair:
        raise SystemExit(f"{name}: differs from transformers")
    return os.path.join(out, "model.safetensors")


def marian(**settings):
    spm = [made.tokenizer(31, LETTERS, 48), made.tokenizer(32, LETTERS, 48)]
    pieces = made.open_tokenizer(spm[0])
    tokens = made.hf_vocabulary([pieces])
    pad = len(tokens) - 1
    return Case("marian", tokens, pieces, start=[pad], banned=[pad], **settings), spm[0]


def marian_files(folder, name, case, data):
    for file in ("source.spm", "target.spm"):
        made.put(folder, f"{name}/{file}", data)
    made.put(folder, name + "/vocab.json", json.dumps(case.ids))
    return os.path.join(folder, name)


def multilingual(kind, **settings):
    data = made.tokenizer(42, LETTERS, 48, eos=2, unk=0, bos=1)
    spm = made.open_tokenizer(data)
    tokens = made.fairseq_tokens(spm) + ["xa_XA", "xb_XB", "<mask>"]
    n = len(tokens)
    return Case(kind, tokens, spm, ["--source-lang", "xb_XB", "--target-lang", "xa_XA"], [n - 2],
                [2, n - 3], [0, 1, 3, n - 3, n - 2, n - 1], **settings), data


def multilingual_files(folder, name, case, data, tokenizer_class):
    n = len(case.tokens)
    added = {str(i): {"content": case.tokens[i]} for i in range(n - 3, n)}
    made.put(folder, name + "/sentencepiece.bpe.model", data)
    made.put(folder, name + "/tokenizer_config.json",
             json.dumps({"tokenizer_class": tokenizer_class, "added_tokens_decoder": added}))
    return os.path.join(folder, name)


BASE = dict(d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048, encoder_attention_heads=8,
            decoder_attention_heads=8, encoder_layers=6, decoder_layers=6)
BIG = dict(d_model=1024, encoder_ffn_dim=4096, decoder_ffn_dim=4096, encoder_attention_heads=16,
           decoder_attention_heads=16, encoder_layers=3, decoder_layers=3)


def half(model):
    """As float16 stores it; sinusoids are not stored."""
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if "embed_positions" not in name:
                t.copy_(t.half().float())


def check(heed, folder):
    torch.set_num_threads(2)
    case, data = marian(activation_function="swish", **BASE)
    files = []
    for how in ("safetensors", "zip", "legacy", ("safetensors", 3), ("zip", 3)):
        name = "opus-mt-" + "-".join(map(str, how if isinstance(how, tuple) else (how,)))
        made.hf_save(folder, name, case.model, how)
        files.append(compare(heed, name, case, marian_files(folder, name, case, data), folder))
    for file in files[1:]:
        if not filecmp.cmp(files[0], file, shallow=False):
            raise SystemExit(f"{file} has other bytes than {files[0]}")
    case, data = marian(**BIG)
    half(case.model)
    made.hf_save(folder, "tc-big-f16", case.model, "zip", torch.float16)
    compare(heed, "tc-big-f16", case, marian_files(folder, "tc-big-f16", case, data), folder)
    for name, kind, cls, more in (("nllb", "m2m", "NllbTokenizer", {}),
                                  ("mbart-50", "mbart", "MBart50Tokenizer",
                                   {"activation_function": "gelu"})):
        case, data = multilingual(kind, **BIG, **more)
        made.hf_save(folder, name, case.model, "safetensors")
        compare(heed, name, case, multilingual_files(folder, name, case, data, cls), folder)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    heed = os.path.abspath(sys.argv[1])
    if len(sys.argv) == 3:
        os.makedirs(sys.argv[2], exist_ok=True)
        check(heed, sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            check(heed, folder)


if __name__ == "__main__":
    main()
