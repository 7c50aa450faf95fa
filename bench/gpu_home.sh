# shellcheck shell=bash
# gpu_home.sh — where heed is on a GPU machine, and its libraries. To be sourced, with $home set to
# the folder: a build, or what `bench/gpu.sh pack` left.
# shellcheck disable=SC2034,SC2154 # for whom it is sourced
heed=$home/heed
# cuBLASLt is the toolkit's, or came with PyTorch.
cublas=
packages=$(python3 -c 'import glob, nvidia
print(*[d for p in nvidia.__path__ for d in glob.glob(p + "/*/lib")])' 2>/dev/null || true)
for folder in /usr/local/cuda/lib64 $packages; do
    if [ -e "$folder/libcublasLt.so.13" ]; then cublas=$folder && break; fi
done
# PyTorch has libraries of its own: its programs run without these.
python() {
    env -u LD_LIBRARY_PATH PYTHONUNBUFFERED=1 timeout "${LIMIT:-200}" python3 "$@"
}
LD_LIBRARY_PATH=$(realpath "$home")/lib:$cublas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export HEED_PLUGIN_PATH=$home
