#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "formats/atomic_file.h"
#include "formats/safetensors.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kLogitRows = 64, kMostTokens = 1 << 24;

// The request of a file, as 32-bit numbers; a missing mask is all ones.
class Inputs {
 public:
  Inputs(const std::filesystem::path& path, std::int64_t vocab, std::int64_t positions)
      : file_(SafetensorsFile::open(path)), ids_(read("input_ids")) {
    const StoredTensor& ids = *file_.find("input_ids");
    batch_ = ids.shape[0], tokens_ = ids.shape[1];
    if (tokens_ > positions) {
      throw config_error("E-USAGE", "--inputs",
                         fmt::format("input_ids has {} tokens, the model {} positions", tokens_, positions),
                         "samples that the model can see");
    }
    for (const std::int32_t id : ids_) {
      if (id >= 0 && id < vocab) continue;
      throw data_error("E-DATA-TOKEN", file_.path(), fmt::format("input_ids holds {}", id),
                       fmt::format("tokens from 0 to {}", vocab - 1));
    }
    for (const StoredTensor& tensor : file_.tensors()) {
      if (tensor.name == "input_ids" || tensor.name == "attention_mask") continue;
      throw refuse(fmt::format("it holds {}", tensor.name), "input_ids and attention_mask alone");
    }
    mask_.assign(ids_.size(), 1);
    if (const StoredTensor* mask = file_.find("attention_mask")) {
      if (mask->shape != ids.shape) throw refuse("attention_mask is " + to_text(mask->shape), "the shape of input_ids");
      mask_ = read("attention_mask");
    }
    for (const std::int32_t seen : mask_) {
      if (seen != 0 && seen != 1) throw refuse(fmt::format("attention_mask holds {}", seen), "0 and 1");
    }
  }

  std::int64_t batch() const { return batch_; }
  std::int64_t tokens() const { return tokens_; }
  std::span<const std::int32_t> ids(std::int64_t sample) const { return row(ids_, sample); }
  std::span<const std::int32_t> mask(std::int64_t sample) const { return row(mask_, sample); }
  Bytes heap() const { return Bytes{4 * (std::ssize(ids_) + std::ssize(mask_))}; }

 private:
  Error refuse(const std::string& what, std::string expected) const {
    return data_error("E-FORMAT-TENSOR", file_.path(), what, std::move(expected));
  }

  std::span<const std::int32_t> row(const std::vector<std::int32_t>& all, std::int64_t sample) const {
    return std::span(all).subspan(static_cast<std::size_t>(sample * tokens_), static_cast<std::size_t>(tokens_));
  }

  std::vector<std::int32_t> read(const char* name) const {
    const StoredTensor* tensor = file_.find(name);
    if (tensor == nullptr) throw refuse(fmt::format("there is no {}", name), "input_ids [batch, tokens]");
    const bool wide = tensor->stored_as == "I64", narrow = tensor->stored_as == "I32";
    const bool fits = tensor->shape.rank() == 2 && tensor->shape.elements() > 0 && tensor->shape.elements() <= kMostTokens;
    if (!fits || (!wide && !narrow)) {
      throw refuse(fmt::format("{} is {} {}", name, tensor->stored_as, to_text(tensor->shape)),
                   fmt::format("I32 or I64 [batch, tokens], at most {} numbers", kMostTokens));
    }
    const auto count = static_cast<std::size_t>(tensor->shape.elements());
    std::vector<std::int32_t> numbers(count);
    if (narrow) {
      file_.read_into(*tensor, std::as_writable_bytes(std::span(numbers)));
      return numbers;
    }
    constexpr std::size_t kPart = 4096;
    std::vector<std::int64_t> part(std::min(count, kPart));
    for (std::size_t begin = 0; begin < count; begin += kPart) {
      const std::size_t some = std::min(kPart, count - begin);
      file_.read_part(*tensor, static_cast<std::int64_t>(8 * begin), std::as_writable_bytes(std::span(part).first(some)));
      for (std::size_t i = 0; i < some; ++i) {
        numbers[begin + i] = static_cast<std::int32_t>(part[i]);
        if (part[i] == numbers[begin + i]) continue;
        throw data_error("E-DATA-TOKEN", file_.path(), fmt::format("{} holds {}", name, part[i]), "numbers of 32 bits");
      }
    }
    return numbers;
  }

  SafetensorsFile file_;
  std::vector<std::int32_t> ids_, mask_;
  std::int64_t batch_ = 0, tokens_ = 0;
};

// The request of a file of images: pixel_values f32 [batch, channels, height, width], normalised.
class Images {
 public:
  Images(const std::filesystem::path& path, const ModelFacts& facts) : file_(SafetensorsFile::open(path)) {
    const std::string expected = fmt::format("pixel_values alone, F32 [batch, {}, size, size]{}", facts.channels,
                                             facts.image_size > 0 ? fmt::format(" of size {}", facts.image_size) : std::string());
    const auto refuse = [&](const std::string& what) { return data_error("E-FORMAT-TENSOR", file_.path(), what, expected); };
    for (const StoredTensor& tensor : file_.tensors()) {
      if (tensor.name != "pixel_values") throw refuse("it holds " + tensor.name);
    }
    tensor_ = file_.find("pixel_values");
    if (tensor_ == nullptr) throw refuse("there is no pixel_values");
    const Shape& shape = tensor_->shape;
    const bool fits = tensor_->stored_as == "F32" && shape.rank() == 4 && shape[0] >= 1 && shape[1] == facts.channels &&
                      shape[2] == shape[3] && shape[2] >= 1 && shape[2] <= kLargestImage &&
                      (facts.image_size == 0 || shape[2] == facts.image_size);
    if (!fits) throw refuse(fmt::format("pixel_values is {} {}", tensor_->stored_as, to_text(shape)));
  }

  std::int64_t batch() const { return tensor_->shape[0]; }
  std::int64_t size() const { return tensor_->shape[2]; }
  // One image [size, size, channels].
  void read(std::int64_t sample, std::span<float> pixels) const {
    const std::int64_t channels = tensor_->shape[1], places = size() * size();
    std::vector<float> row(static_cast<std::size_t>(size()));
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = 0; y < size(); ++y) {
        const std::int64_t first = (sample * channels + c) * places + y * size();
        file_.read_part(*tensor_, 4 * first, std::as_writable_bytes(std::span(row)));
        for (std::int64_t x = 0; x < size(); ++x) {
          pixels[static_cast<std::size_t>((y * size() + x) * channels + c)] = row[static_cast<std::size_t>(x)];
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kLargestImage = 1 << 14;
  SafetensorsFile file_;
  const StoredTensor* tensor_ = nullptr;
};

int forward_images(InferenceCommand& command, const ForwardArguments& arguments, const std::filesystem::path& out) {
  const ModelSource& model = command.model();
  const Images images(arguments.inputs, command.facts());
  const auto build = [&](std::int64_t, const FrozenBase& stored) {
    return build_forward_graph(model.model, {.forward = {.samples = 1}, .image_size = images.size()}, model.adapter, stored);
  };
  InferenceRun run = command.run(build, {1}, Bytes{4 * images.size()});
  SafetensorsWriter writer(out, {{"logits", DType::f32, {images.batch(), command.facts().classes}}});
  const Pass& pass = run.graph().model.pass("forward");
  for (std::int64_t sample = 0; sample < images.batch(); ++sample) {
    run.run(pass, [&] {
      images.read(sample, run.executor().view(pass.input("pixels")).as<float>());
      std::ranges::fill(run.executor().view(pass.input("sample_ids")).as<std::uint32_t>(), 0U);
    });
    writer.append("logits", std::as_bytes(run.executor().view(pass.results.front()).as<float>()));
  }
  writer.commit();
  run.check();
  if (arguments.json) {
    print_result({{"schema", "plimsoll.forward/1"}, {"samples", images.batch()}}, run);
  } else {
    print_text(fmt::format("wrote the logits of {} images to {}\n", images.batch(), arguments.out));
  }
  return 0;
}

// One sample after the other: its hidden states, then its logits, some rows at a time.
void run_samples(InferenceRun& run, const Inputs& inputs, SafetensorsWriter& writer) {
  const Pass &forward = run.graph().model.pass("forward"), &logits = run.graph().model.pass("logits");
  const auto numbers = [&](const Pass& pass, std::string_view field) {
    return run.executor().view(pass.input(field)).as<std::int32_t>();
  };
  for (std::int64_t sample = 0; sample < inputs.batch(); ++sample) {
    run.run(forward, [&] {
      std::ranges::copy(inputs.ids(sample), numbers(forward, "tokens").begin());
      std::ranges::copy(inputs.mask(sample), numbers(forward, "segments").begin());
      std::ranges::fill(numbers(forward, "lengths"), static_cast<std::int32_t>(inputs.tokens()));
      std::ranges::fill(run.executor().view(forward.input("sample_ids")).as<std::uint32_t>(), 0U);
    });
    const auto rows = std::ssize(numbers(logits, "index"));
    for (std::int64_t begin = 0; begin < inputs.tokens(); begin += rows) {
      const std::int64_t some = std::min(rows, inputs.tokens() - begin);
      run.run(logits, [&] {
        const std::span<std::int32_t> index = numbers(logits, "index");
        for (std::int64_t i = 0; i < rows; ++i) {
          index[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(std::min(begin + i, inputs.tokens() - 1));
        }
      });
      const std::span<const float> result = run.executor().view(logits.results.front()).as<float>();
      writer.append("logits",
                    std::as_bytes(result.first(result.size() / static_cast<std::size_t>(rows) * static_cast<std::size_t>(some))));
    }
  }
}

}  // namespace

int run_forward(const ForwardArguments& arguments) {
  if (std::filesystem::is_directory(arguments.out)) {
    throw config_error("E-USAGE", "--out", arguments.out + " is a folder", "the name of a file");
  }
  const std::filesystem::path out = output_file(arguments.out);
  InferenceCommand command(arguments, "forward");
  const ModelSource& model = command.model();
  const ModelFacts& facts = command.facts();
  if (facts.classes > 0) return forward_images(command, arguments, out);
  const Inputs inputs(arguments.inputs, facts.vocab, most_positions(facts));
  if (inputs.tokens() > facts.positions) {
    say_line(fmt::format("note: samples of {} tokens; the model in {} was made for at most {}", inputs.tokens(),
                         model.folder.string(), facts.positions));
  }
  const ForwardShape shape{.samples = 1, .rows = std::min(kLogitRows, inputs.tokens())};
  const auto build = [&](std::int64_t, const FrozenBase& stored) {
    return build_forward_graph(model.model, {.tokens = inputs.tokens(), .forward = shape}, model.adapter, stored);
  };
  InferenceRun run = command.run(build, {1}, inputs.heap());
  SafetensorsWriter writer(out, {{"logits", DType::f32, {inputs.batch(), inputs.tokens(), facts.vocab}}});
  run_samples(run, inputs, writer);
  writer.commit();
  run.check();
  if (arguments.json) {
    print_result({{"schema", "plimsoll.forward/1"}, {"samples", inputs.batch()}, {"tokens", inputs.tokens()}}, run);
  } else {
    print_text(fmt::format("wrote the logits of {} x {} tokens to {}\n", inputs.batch(), inputs.tokens(), arguments.out));
  }
  return 0;
}

}  // namespace plimsoll
