# shellcheck shell=bash
# shellcheck disable=SC2154  # root, dir, plimsoll, memory, minutes and seed are those of scripts/demo
# The demo `bible`, read by scripts/demo: a small GPT on the King James Bible, byte by byte.

# One verse a line without its label ("1Sam17:4 "), an empty line between chapters; the last twentieth is held out.
prepare_text() {
  bible -f 'Gen1:1-Rev22:21' </dev/null | awk '
    {
      chapter = $1
      sub(/:[0-9]+$/, "", chapter)
      if (NR > 1 && chapter != last) print ""
      last = chapter
      sub(/^[^ ]+ +/, "")
      print
    }' >"$dir/bible.txt"
  local lines
  lines=$(wc -l <"$dir/bible.txt")
  if [[ $lines -lt 30000 ]]; then
    echo "demo: the command bible printed $lines lines; the whole text has more than 30000" >&2
    exit 5
  fi
  head -n $((lines * 95 / 100)) "$dir/bible.txt" >"$dir/train.txt"
  tail -n +$((lines * 95 / 100 + 1)) "$dir/bible.txt" >"$dir/validation.txt"
}

# print_gpt LAYERS WIDTH HEADS RATE: the tables of a GPT of bytes on that text.
print_gpt() {
  cat <<END
seed = $seed

[model]
kind = "gpt2"
layers = $1
width = $2
heads = $3
context = 128
vocab = 256
dropout = 0.0

[data]
train = "$dir/train.txt"
validation = "$dir/validation.txt"
format = "bytes"
order = "shuffled"

[optimizer]
name = "adamw"
learning_rate = $4
betas = [0.9, 0.99]
weight_decay = 0.1

[memory]
budget = "$memory"

END
}

write_config() {
  local threads
  # A model of this size gains little from more than eight threads.
  threads=$(nproc)
  if [[ $threads -gt 8 ]]; then threads=8; fi
  print_gpt 4 256 4 2e-3 >"$dir/demo.toml"
  cat >>"$dir/demo.toml" <<END
[train]
effective_batch = 16
updates = 1000

[schedule]
name = "cosine"
warmup = "50updates"

[machine]
threads = $threads
END
}

# How many updates fit into the minutes, by the pace of a short run.
choose_updates() {
  local seconds
  seconds=$(seconds_per_update "$dir/demo.toml" 40 10)
  awk -v minutes="$minutes" -v seconds="$seconds" 'BEGIN {
    updates = int(minutes * 60 / seconds)
    if (updates < 20) updates = 20
    if (updates > 5000) updates = 5000
    print updates
  }'
}

print_account() {
  python3 - "$dir/run/run.json" "$dir/eval.json" <<'END'
import json, math, sys

run, evaluation = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
loss = evaluation["loss"]
print(f"validation loss {loss:.4f} nats per byte ({loss / math.log(2):.3f} bits per byte) over {evaluation['units']} bytes "
      f"after {run['updates']} updates, {run['seconds']:.0f} s")
END
}

run_demo() {
  say "Preparing the text"
  prepare_text
  write_config
  printf '%s bytes to train on, %s held out\n' "$(wc -c <"$dir/train.txt")" "$(wc -c <"$dir/validation.txt")"

  say "The plan for $memory"
  "$plimsoll" machine "$dir/demo.toml" --json >"$dir/machine.json"
  "$plimsoll" plan "$dir/demo.toml"
  local updates
  updates=$(choose_updates)

  say "Training for $updates updates"
  "$plimsoll" train "$dir/demo.toml" --run "$dir/run" --updates "$updates" --set "train.updates=$updates"

  say "Evaluating"
  "$plimsoll" eval "$dir/demo.toml" --weights "$dir/run/weights" --json >"$dir/eval.json"
  print_account

  say "A sample"
  "$plimsoll" generate --weights "$dir/run/weights" --memory "$memory" --prompt "And it came to pass" --tokens 400 \
    --temperature 0.8 --seed 1
}
