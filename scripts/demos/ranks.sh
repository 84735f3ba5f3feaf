# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # root, dir, plimsoll, launch, memory, minutes and seed are those of scripts/demo
# The demo `ranks`, read by scripts/demo: a GPT of 19 M parameters as two processes, inside a budget that is too small for one.

# shellcheck source=scripts/demos/bible.sh
source "$root/scripts/demos/bible.sh" # the text, the model, and the number of updates

write_config() {
  print_gpt 6 512 8 1e-3 >"$dir/demo.toml"
  cat >>"$dir/demo.toml" <<END
[train]
effective_batch = 8
updates = 1000
evaluate_samples = 200

[schedule]
name = "cosine"
warmup = "5%"
END
}

# One process is refused (exit 3), with the least memory that it needs.
refuse_one() {
  local code=0
  "$plimsoll" plan "$dir/demo.toml" --json >"$dir/one.json" || code=$?
  if [[ $code -ne 3 ]]; then
    echo "demo: the plan of one process ended with $code; with $memory it should not fit" >&2
    exit 1
  fi
  python3 - "$dir/one.json" "$memory" <<'END'
import json, sys

plan = json.load(open(sys.argv[1], encoding="utf-8"))
print(f"one process: {plan['status']}; it needs {plan['bounds']['floor_bytes'] / 2**20:.1f} MiB, and has {sys.argv[2]}")
END
}

print_ranks() {
  python3 - "$dir/run/run.json" <<'END'
import json, sys

run = json.load(open(sys.argv[1], encoding="utf-8"))
budget = run["budget"]["memory"]
mib = lambda size: f"{size / 2**20:.1f} MiB"
for rank in run["ranks"]:
    print(f"rank {rank['rank']} on {rank['host']}: process {mib(rank['process_hwm_bytes'])} of {mib(budget)}, "
          f"arena {mib(rank['arena_bytes'])}, sent {mib(rank['sent_bytes'] / run['updates'])} an update")
    if rank["process_hwm_bytes"] > budget:
        sys.exit("demo: a process used more than its budget")
final = run["final"]
print(f"loss {final['loss']:.4f}, validation loss {final['validation_loss']:.4f} nats per byte after {run['updates']} updates, "
      f"{run['seconds']:.0f} s")
END
}

run_demo() {
  local updates
  say "Preparing the text"
  prepare_text
  write_config

  say "The plan of one process with $memory"
  refuse_one

  say "The plan of two processes with $memory each"
  launch=(launch -n 2)
  "$plimsoll" "${launch[@]}" machine | grep "between ranks"
  "$plimsoll" plan "$dir/demo.toml" --ranks 2
  updates=$(choose_updates)

  say "Training for $updates updates"
  "$plimsoll" "${launch[@]}" train "$dir/demo.toml" --run "$dir/run" --updates "$updates" --set "train.updates=$updates"
  print_ranks

  say "A sample"
  "$plimsoll" generate --weights "$dir/run/weights" --memory "$memory" --prompt "And it came to pass" --tokens 200 \
    --temperature 0.8 --seed 1
}
