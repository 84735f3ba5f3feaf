# shellcheck shell=bash
# shellcheck disable=SC2154  # root, dir, plimsoll, memory, minutes and seed are those of scripts/demo
# The demo `vision`, read by scripts/demo: a small ResNet on Fashion-MNIST (Xiao et al., 2017; MIT licence).

images=/usr/share/datasets/fashion-mnist
batch=128

write_config() {
  cat >"$dir/fashion.toml" <<END
seed = $seed

[model]
kind = "resnet"
layer = "basic"
stem = "cifar"
stem_width = 32
depths = [1, 1, 1]
widths = [32, 64, 128]
channels = 1
classes = 10

[data]
format = "idx"
train = "$images/train-images-idx3-ubyte.gz"
labels = "$images/train-labels-idx1-ubyte.gz"
validation = "5%"

[image]
mean = [0.286]
std = [0.353]
flip = true
pad_crop = 2

[norm]
stat_batch = 32

[train]
effective_batch = $batch
epochs = 5
gradient_clip = 0.0

[optimizer]
name = "sgd"
learning_rate = 0.1
momentum = 0.9
weight_decay = 5e-4

[schedule]
name = "one_cycle"

[memory]
budget = "$memory"
END
}

# The test images are read once, at the end.
run_demo() {
  local seconds updates
  if [[ ! -e $images/train-images-idx3-ubyte.gz ]]; then
    echo "demo: there is no $images; it is the Debian package dataset-fashion-mnist" >&2
    exit 5
  fi
  write_config

  say "The plan for $memory"
  # Five epochs, or as much of them as fits the minutes at the pace of a short run.
  seconds=$(seconds_per_update "$dir/fashion.toml" 12 4 --set data.validation= --set train.epochs=1)
  updates=$(awk -v minutes="$minutes" -v seconds="$seconds" -v batch="$batch" 'BEGIN {
    all = int(5 * 57000 / batch); some = int(minutes * 60 / seconds)
    print some < all ? (some < 10 ? 10 : some) : all
  }')
  "$plimsoll" plan "$dir/fashion.toml" --set "train.epochs=none" --set "train.updates=$updates"

  say "Training for $updates updates"
  "$plimsoll" train "$dir/fashion.toml" --set "train.epochs=none" --set "train.updates=$updates" --run "$dir/run"

  say "10,000 test images"
  "$plimsoll" eval "$dir/fashion.toml" --weights "$dir/run/weights" \
    --set "data.validation=$images/t10k-images-idx3-ubyte.gz" --set "data.validation_labels=$images/t10k-labels-idx1-ubyte.gz"
  printf 'weights %s\n' "$dir/run/weights"
}
