#!/bin/bash
# test_box.sh — the recipe of the models in the box, from raw text to both directories, on three
# tiny corpora with a few updates each: every stage runs, finds what the one before left, and does
# nothing twice.
# timeout: 600
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
slow "trains four models"
command -v python3 >/dev/null || skip "no python3"
export DATA=$dir/data WORK=$dir/work HEED=$heed DEVICE=cpu MODELS=$dir/models
export TEACHER_PIECES=560 STUDENT_PIECES=540 PRESET=tiny STEPS=3 COOLDOWN=1 TOKENS=700

# Of several translations the one most like the reference, unless it is far behind by score.
cat >"$dir/nbest" <<'END'
0 ||| Wie geht es deinem Vater? ||| -0.5
0 ||| Wie geht es Ihrem Vater? ||| -1.4
0 ||| Wie geht es dem Vater? ||| -1.5
1 ||| Ich ||| bin hier. ||| -0.5
1 ||| Ich bin dort. ||| -1.6
2 ||| Gut. ||| -0.1
END
printf '%s\n' "Wie geht es Ihrem Vater" "Ich bin dort." "Schlecht!" >"$dir/reference"
"$tree/recipes/box/closest.py" "$dir/nbest" "$dir/reference" "$dir/chosen" || fail "closest.py"
printf '%s\n' "Wie geht es Ihrem Vater?" "Ich ||| bin hier." "Gut." |
    cmp - "$dir/chosen" || fail "closest.py chose: $(cat "$dir/chosen")"
"$tree/recipes/box/closest.py" "$dir/nbest" "$dir/reference" "$dir/chosen" --within 2
grep -qx "Ich bin dort." "$dir/chosen" || fail "closest.py --within 2 chose: $(cat "$dir/chosen")"
sed -i 2d "$dir/reference"
rc=0
"$tree/recipes/box/closest.py" "$dir/nbest" "$dir/reference" "$dir/chosen" 2>"$dir/log" || rc=$?
[ $rc = 1 ] || fail "closest.py takes a reference that is too short"
grep -q "only 2 lines" "$dir/log" || fail "closest.py says: $(cat "$dir/log")"

# corpus NAME FIRST — lines of the demo's text, all different
corpus() {
    mkdir -p "$DATA/$1-en-de"
    for language in en de; do
        xzcat "$tree/demo/train.$language.xz" | sed -n "$2,$(($2 + 119))p" |
            xz >"$DATA/$1-en-de/train.$language.xz"
        xzcat "$tree/demo/valid.$language.xz" | sed -n 1,20p |
            xz >"$DATA/$1-en-de/valid.$language.xz"
    done
}
corpus tatoeba 1
corpus msdocs 5001
corpus europarl 10001
# A sentence that is measured on must go.
xzcat "$DATA/europarl-en-de/train.en.xz" | sed -n 7p | xz >"$DATA/europarl-en-de/test.en.xz"
held_out=$(xzcat "$DATA/europarl-en-de/test.en.xz")

stage() { (cd "$dir" && "$tree/recipes/box/$1" "${@:2}" >"$dir/log" 2>&1) ||
    fail "$*: $(tail -n 5 "$dir/log")"; }
stage 1-clean.sh
grep -qxF "$held_out" <(xzcat "$DATA/europarl-en-de/train.en.xz") || fail "no held-out sentence"
rc=0
grep -qxF "$held_out" "$WORK/clean/europarl.en" || rc=$?
[ $rc = 1 ] || fail "a held-out sentence is trained on"
stage 2-vocab.sh
for pair in de-en en-de; do
    stage 3-teacher.sh $pair
    if [ $pair = en-de ]; then stage 3-teacher.sh $pair 2; fi
    stage 4-translate.sh $pair
done
stage 4-translate.sh de-en # once more, for what en-de's teachers wrote of everyday sentences
cmp -s "$WORK/teacher.en-de"{,.2}/model.safetensors && fail "the second teacher is the first"
lines() { wc -l <"$1"; }
for pair in de-en en-de; do
    again=$WORK/translated.$pair/again
    xzcat "$again.${pair#*-}.xz" >"$dir/plain"
    [ "$(lines "$dir/plain")" = "$(lines "$again.${pair%-*}")" ] || fail "again: lines are lost"
    [ "$(lines "$dir/plain")" = "$(lines "$WORK/clean/tatoeba.en")" ] || fail "again: too few"
done
for name in tatoeba msdocs europarl; do
    xzcat "$WORK/translated.de-en/$name.en.xz" >"$dir/plain"
    [ "$(lines "$dir/plain")" = "$(lines "$WORK/clean/$name.de")" ] || fail "$name: lines are lost"
done
# The second teacher has learnt from what the first one wrote.
config=$WORK/run.teacher.en-de/config.json
grep -q 'translated.de-en/europarl.en.xz' "$config" || fail "no back-translation in $config"
grep -q '<bt>' "$config" || fail "the back-translation is not tagged in $config"
for pair in de-en en-de; do
    stage 5-student-data.sh $pair
    stage 6-student.sh $pair
    stage 7-pack.sh $pair
    out=$("$heed" translate --model "$MODELS/$pair" --quiet --max-extra 5 <<<"Tom") ||
        fail "models/$pair does not translate"
done
stage 8-links.sh en-de --lr-scale 1 # enough to see that it learns
for part in after mean; do
    cmp -s "$WORK/student.en-de.f32/model.safetensors" \
        "$WORK/links.en-de/$part/model.safetensors" && fail "8-links.sh: $part is what was before"
done
stage 9-copies.sh de-en --lr-scale 1
copies=$WORK/copies.de-en/copy.tatoeba
for language in en de; do
    [ "$(lines "$copies.$language")" -gt 100 ] || fail "9-copies.sh: no copies"
done
for pair in en-de de-en; do
    cp "$MODELS/$pair/model.safetensors" "$dir/before"
    stage 7-pack.sh $pair
    cmp -s "$MODELS/$pair/model.safetensors" "$dir/before" && fail "7-pack.sh forgot $pair's mean"
done
out=$(HEED_MODELS=$MODELS "$heed" models)
has CC-BY-4.0
# Once more: everything is there.
touch "$dir/before"
for pair in de-en en-de; do
    stage 4-translate.sh $pair
    stage 5-student-data.sh $pair
done
[ -z "$(find "$WORK" -newer "$dir/before" -type f)" ] || fail "a stage was done twice"
