"""serve_libretranslate.py — starts LibreTranslate without what it would fetch from the network.

    serve_libretranslate.py waitress PORT THREADS
    gunicorn --workers N --bind ... 'serve_libretranslate:application()'

Its sentence splitter needs models that it downloads; here every text is one sentence. Its length
penalty is fixed at 0.2, which for beams wider than 1 is set to 0 instead. SOURCE_LENGTH=1 ends
translations at the length of the source, for models with random weights."""

import os
import sys


def prepare():
    import argostranslate.sbd
    import ctranslate2

    argostranslate.sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
    translate = ctranslate2.Translator.translate_batch
    fair = {"length_penalty": 0} if os.environ.get("ARGOS_BEAM_SIZE", "1") != "1" else {}

    def as_heed(self, source, **options):
        options.update(fair)
        if os.environ.get("SOURCE_LENGTH"):
            options["max_decoding_length"] = max(map(len, source))
        return translate(self, source, **options)

    ctranslate2.Translator.translate_batch = as_heed


def arguments(port, threads):
    return ["libretranslate", "--host", "127.0.0.1", "--port", str(port), "--threads", str(threads),
            "--disable-web-ui", "--load-only", "en,de"]


def application():
    prepare()
    sys.argv = arguments(os.environ.get("PORT", "5000"), 1)
    from libretranslate.app import create_app
    from libretranslate.main import get_args

    return create_app(get_args())


if __name__ == "__main__":
    prepare()
    sys.argv = arguments(sys.argv[2], sys.argv[3])
    from libretranslate.main import main

    main()
