#!/usr/bin/env python3
"""One engine, one model, one process: how fast it opens, translates many sentences and single ones,
and how much memory that takes. Text in, text out, for all engines alike. Prints one JSON line.

    import_race.py heed LIBRARY MODEL-DIR SENTENCES THREADS
    import_race.py ct2 PACKAGE-DIR SENTENCES INTER INTRA
    import_race.py bergamot MODEL-DIR SENTENCES WORKERS [shortlist]

heed is its shared library, called through ctypes. Memory is what the process has at its peak beyond
what Python had before. Many sentences are translated REPEAT times, the best of which counts."""
import ctypes
import json
import os
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "tests", "import"))
REPEAT = int(os.environ.get("REPEAT", "3"))


def memory(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field)) / 1024


def timed(f):
    """Seconds, those of all processors, and what f returns."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = f()
    return time.perf_counter() - begin, time.process_time() - cpu, result


class HeedModelOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("precision", ctypes.c_char_p),
                ("device", ctypes.c_char_p), ("isa", ctypes.c_char_p), ("sessions", ctypes.c_int),
                ("threads", ctypes.c_int), ("ensemble", ctypes.c_void_p),
                ("n_ensemble", ctypes.c_size_t)]


class HeedTranslation(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p)]


def heed(library, folder, threads):
    lib = ctypes.CDLL(os.path.abspath(library))
    lib.heed_result_get.restype = ctypes.POINTER(HeedTranslation)
    lib.heed_result_get.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    lib.heed_result_free.argtypes = [ctypes.c_void_p]
    error = ctypes.create_string_buffer(4096)

    def check(status):
        if status:
            raise SystemExit(f"heed: {error.raw[4:].split(bytes(1))[0].decode()}")

    def load():
        model, options = ctypes.c_void_p(), HeedModelOptions()
        lib.heed_model_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
        options.threads = int(threads)
        options.device = b"cpu"
        check(lib.heed_model_open(ctypes.byref(model), folder.encode(), ctypes.byref(options),
                                  error))

        def translate(texts):
            n = len(texts)
            given = (ctypes.c_char_p * n)(*[t.encode() for t in texts])
            result = ctypes.c_void_p()
            check(lib.heed_translate(model, given, ctypes.c_size_t(n), None, ctypes.byref(result),
                                     error))
            out = [lib.heed_result_get(result, i, 0)[0].text.decode() for i in range(n)]
            lib.heed_result_free(result)
            return out
        return translate
    return load


def ct2(folder, inter, intra):
    import ctranslate2
    import sentencepiece

    def load():
        model = ctranslate2.Translator(folder + "/model", compute_type="int8",
                                       inter_threads=int(inter), intra_threads=int(intra))
        spm = sentencepiece.SentencePieceProcessor(model_file=folder + "/sentencepiece.model")

        def translate(texts):
            out = model.translate_batch(spm.encode(texts, out_type=str), beam_size=4,
                                        length_penalty=0.2, max_batch_size=32)
            return ["".join(r.hypotheses[0]).replace("\u2581", " ").strip() for r in out]
        return translate
    return load


def bergamot(folder, workers, shortlist=""):
    import peers
    return lambda: peers.open_bergamot(folder, {}, int(workers), shortlist == "shortlist")


def main():
    base = memory("VmRSS")
    engine, rest = sys.argv[1], sys.argv[2:]
    at = 2 if engine == "heed" else 1
    with open(rest.pop(at), encoding="utf-8") as f:
        texts = [line.rstrip("\n") for line in f]
    load = {"heed": heed, "ct2": ct2, "bergamot": bergamot}[engine](*rest)
    opening, _, translate = timed(load)
    translate(texts[:4])
    single = [timed(lambda t=t: translate([t])) for t in texts[:60]]
    many = [timed(lambda: translate(texts)) for _ in range(REPEAT)]
    print(json.dumps({"engine": engine, "set": rest, "open_ms": 1e3 * opening,
                      "single_ms": 1e3 * sum(s[0] for s in single) / len(single),
                      "per_s": len(texts) / min(m[0] for m in many),
                      "per_cpu_s": len(texts) / min(m[1] for m in many),
                      "single_cpu_ms": 1e3 * sum(s[1] for s in single) / len(single),
                      "words": sum(len(t.split()) for t in many[0][2]),
                      "memory_mb": memory("VmHWM") - base}))


if __name__ == "__main__":
    main()
