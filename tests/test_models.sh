#!/usr/bin/env bash
# test_models.sh — models by name: where they are looked for, which one is used when none is named,
# heed models, and heed describe; with every odd thing that can lie in such a folder.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
unset HEED_MODELS
train run --steps 100 --save-every 50 --quiet || fail 'no model to name'
"$heed" average --out plain --last 2 run >/dev/null
"$heed" quantize --model plain --out small >/dev/null
line=$(head -n 1 v.src)
# What PREFIX has installed on this machine is found by every program; only checks that need to be
# alone with their models mind.
alone=1
mkdir empty
[ "$(cd empty && "$heed" models --json 2>/dev/null | wc -l)" = 0 ] || alone=

# ---- describing
verb=(describe)
expect 2 'nothing to change' -- small
expect 0 '' -- small --source xx --target yy-Latn --licence CC0-1.0 \
    --description 'words turned round' --set beam=2 --set alpha=0.25 --set no-unknown=true
verb=(inspect)
expect 0 'yy-Latn' -- small
has '  licence              CC0-1.0'
has '  beam                 2'
has '  no_unknown           true'
expect 0 '"translate": {"beam": 2, "alpha": 0.25, "no_unknown": true}' -- small --json
verb=(describe)
cp -r small before
expect 2 "--set: beam: 0 is not between 1 and 64" -- small --set beam=0
expect 2 "--set: a model cannot set 'seed'" -- small --set seed=1
expect 2 "--set: a model cannot set 'alinment_row'; did you mean 'alignment_row'?" -- small \
    --set alinment_row=input
# The help names all that it can, each in full.
names=$("$heed" describe --help | tr '\n' ' ' |
    sed -n 's/.* can set \(.*\) and \([a-z_]*\)\..*/\1, \2/p' | tr -d ' ')
[ "$(tr ',' '\n' <<<"$names" | wc -l)" -ge 17 ] || fail "names in the help: $names"
for name in ${names//,/ }; do expect 0 '' -- small --set "$name="; done
cp before/config.json small/
expect 2 "--set: prefix_token: the model's tokenizer has no piece '<no>'" -- small \
    --set 'prefix_token=<no>'
expect 2 "--set: 'beam' is not NAME=VALUE" -- small --set beam
expect 2 "no_unknown: 'yes' is neither true nor false" -- small --set no_unknown=yes
expect 2 'alignment_layer: 2, but the decoder has 1 layers' -- small --set alignment_layer=2
expect 2 '--source: ' -- small --source 'English, mostly'
expect 2 '--description: at byte 2 ' -- small --description $'a\e[2J'
expect 2 '--licence: at byte 1 ' -- small --licence $'\xff'
expect 1 'no such directory' -- nowhere --source en
expect 1 'a training run writes its config.json anew' -- run --source en
same small/config.json before/config.json 'what was refused is not written'
# Whoever makes a model from another one passes it on.
expect 0 '' -- plain --source xx --set beam=3
"$heed" average --out again plain plain >/dev/null
"$heed" export --model plain --out tiled --format f32 >/dev/null
"$heed" export --model tiled --out twice --format int8 >/dev/null
for model in again tiled twice; do
    out=$(tr -d ' \n' <$model/config.json)
    has '"card":{"source":"xx"},"translate":{"beam":3}'
done
expect 0 '' -- again --source '' --set beam=
out=$(cat again/config.json)
lacks card
lacks translate
# Options of the model hold where the user says nothing.
t() { "$heed" translate --threads 1 --quiet --scores "$@"; }
t --model small v.src >own
t --model small --beam 2 --alpha 0.25 --no-unknown v.src | cmp - own || fail 'not its own options'
t --model small --beam 4 --alpha 0.6 v.src >other
differ own other 'the options given are not used'
sed -i 's/"beam": 2/"beam": 65/' small/config.json
expect 1 'config.json: translate: beam: 65 is not between 1 and 64' t --model small v.src
cp before/config.json small/
# Models of opposite directions may share a tokenizer; together they would write half of each.
cp -r small turned
expect 0 '' -- turned --source yy --target xx
expect 2 'turned from yy to xx: they cannot translate together' t --model small --model turned v.src
expect 0 '' -- turned --source xx --target yy
t --model small --model turned v.src >got || fail 'models of one direction'
rm -r turned

# ---- finding
mkdir -p models one two
cp -r small models/here
cp -r small one/both
cp -r plain two/both
cp -r plain two/last
rm -rf before twice tiled again
verb=(translate --threads 1 --quiet)
t --model small v.src >want
t --model here v.src | cmp - want || fail './models'
export HEED_MODELS=one::$dir/two:/nowhere
t --model both v.src | cmp - want || fail 'the first of two is not taken'
HEED_MODELS=two:one expect 0 '"precision":"f32"' "$heed" models --json
cp -r plain both
t --model both v.src >got
differ got want 'a directory of that name is not taken first'
rm -r both
# Everywhere.
head -n 2 v.src >in && head -n 2 v.tgt >out.txt
expect 0 'two/both' "$heed" inspect two/both
expect 0 'one/both' "$heed" inspect both
expect 0 '' "$heed" score --model both --src in --tgt out.txt
expect 0 '' "$heed" attend --model both --src "$line" --out x.svg --quiet
expect 0 'exported: int8' "$heed" quantize --model last --out exported
expect 0 'mean: average of 1 model' "$heed" average --out mean last
expect 0 '' "$heed" bench translate --model both --sentences 2 --length 4 --batch 1
rm -rf exported mean
# Not everything is a name.
expect 1 "nix: no such directory, and no model of that name in one, $dir/two" -- --model nix
has '; found there: '
has 'both'
expect 1 'a/b: no such model directory' -- --model a/b
expect 1 '..x: no such model directory' -- --model ..x
expect 1 'no such model directory' -- --model $'a\nb'
expect 2 '--model: is empty' -- --model ''
name=$(printf 'x%.0s' {1..5000})
expect 1 'xxx: no such directory' -- --model "$name"
HEED_MODELS=$(printf "$dir/%s:" {1..100}) expect 1 'nix: no such directory' -- --model nix

# ---- choosing
verb=(translate --threads 1)
ln -s ../two/last one/default
expect 0 "heed: translating from xx with the model $dir/two/last" -- v.src
[ "$("$heed" translate --threads 1 v.src 2>/dev/null)" = \
    "$("$heed" translate --model last --threads 1 v.src)" ] || fail 'not the default'
expect 0 '' -- --quiet v.src
lacks 'with the model'
expect 2 'several models translate to yy: both, here; choose one' -- --to yy v.src
rm -r one/both # now here is the only one that goes to yy
expect 0 'translating from xx to yy-Latn with the model models/here' -- --to YY v.src
expect 0 "heed: translating from xx with the model $dir/two/last" -- --from xx v.src # among several
rm one/default
expect 2 'several models translate from xx: both, here, last; choose one with --model' -- --from xx
expect 2 'several models are installed: ' -- v.src
expect 2 "no model translates from xx to zz" -- --from xx --to zz
expect 2 "--to: 'y' is not a language tag" -- --to y
expect 2 '--from chooses a model, and --model does, too' -- --from xx --model here
if [ -n "$alone" ]; then
    HEED_MODELS='' expect 0 'translating from xx to yy-Latn with the model models/here' -- v.src
    mv models elsewhere
    HEED_MODELS='' expect 2 '--model is missing, and no model is installed' -- v.src
    HEED_MODELS=nowhere expect 0 'there are no models in nowhere, models' "$heed" models
    HEED_MODELS='' expect 1 'there are none' -- --model here
    mv elsewhere models
else
    note 'models are installed here: what happens without any is not tried'
fi

# ---- listing, whatever lies there
ln -s both two/default
cp -r plain two/damaged && head -c 1000 plain/model.safetensors >two/damaged/model.safetensors
cp -r plain two/weightless && rm two/weightless/model.safetensors
cp -r plain two/wordless && rm two/wordless/tokenizer.model
cp -r plain two/swapped && head -c 100 plain/tokenizer.model >two/swapped/tokenizer.model
mkdir two/hostile two/piped two/deep two/empty two/.hidden two/large two/evil $'two/a\eb'
printf '{"format": "heed", "version": 7}' >two/hostile/config.json
mkfifo two/piped/config.json
mkdir two/torn && printf '{"a" \e[2J' >two/torn/config.json
head -c 100000 /dev/zero | tr '\0' '[' >two/deep/config.json
head -c 3000000 /dev/zero | tr '\0' ' ' >two/large/config.json
sed 's/"source": "xx"/"licence": "\\u001b]0;owned\\u0007"/' plain/config.json >two/evil/config.json
cp plain/config.json two/.hidden/
cp plain/config.json $'two/a\eb/'
ln -s loop two/loop && ln -s nowhere two/dangling && ln -s config.json two/linked
mkdir two/circle && ln -s config.json two/circle/config.json
ln -s . two/self
touch two/file && seq 2000 | (cd empty && xargs mkdir) && ln -s "$dir/empty" two/many
verb=(models)
timeout 30 "$heed" models >list 2>err || fail "heed models: $(cat err)"
[ ! -s err ] || fail "complaints: $(cat err)"
out=$(cat list)
has 'name '
grep -qE '^both +\* xx +- +0\.[1-9] MB +f32 +- +'"$dir/two/both\$" list || fail "both: $out"
grep -qE '^here +xx +yy-Latn +0\.[1-9] MB +int8 +CC0-1\.0 +models/here$' list || fail "here: $out"
for pair in 'damaged=model.safetensors' 'weightless=model.safetensors: No such file' \
    'wordless=tokenizer.model: No such file' \
    'swapped=is not the tokenizer' 'hostile=version 7 is not supported' \
    'piped=not a regular file' 'torn=config.json:1: ' 'deep=nested deeper' 'large=larger than' \
    'evil=card: licence: at byte 1' 'circle=Too many levels'; do
    grep -E "^${pair%%=*} +cannot be used: .*${pair#*=}" list || fail "${pair%%=*}: $out"
done
for name in empty .hidden loop dangling linked self file many default; do
    absent "^$name |two/$name\$" list
done
absent $'\e' list
"$heed" models --json | python3 -c '
import json, sys
all = {m["name"]: m for m in map(json.loads, sys.stdin)}
here = all["here"]
assert here["source"] == "xx" and here["target"] == "yy-Latn" and here["precision"] == "int8"
assert here["translate"] == {"beam": 2, "alpha": 0.25, "no_unknown": True} and not here["default"]
assert here["description"] == "words turned round" and here["directory"] == "models/here"
assert all["both"]["default"] and all["both"]["parameters"] > 10000
assert "version 7" in all["hostile"]["error"] and "bytes" not in all["hostile"]
' || fail 'models --json'
verb=(translate --threads 1)
expect 0 "translating from xx with the model $dir/two/both" -- v.src # broken ones are in no way
touch notadir
HEED_MODELS=notadir expect 0 'warning: notadir: Not a directory' "$heed" models
if [ "$(id -u)" != 0 ]; then
    chmod 0 two/damaged
    expect 0 'damaged' "$heed" models
    grep -q 'Permission denied' <<<"$out" || fail "unreadable: $out"
    chmod 700 two/damaged
fi
expect 0 "model: $dir/two/last" "$heed" train "${data[@]}" --out tuned --init last --steps 1
