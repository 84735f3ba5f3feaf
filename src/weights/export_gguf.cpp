#include "weights/export_gguf.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/peft_folder.h"
#include "base/error.h"
#include "formats/gguf/gguf_tokenizer.h"
#include "formats/gguf/gguf_tokenizer_keys.h"
#include "formats/gguf/gguf_writer.h"
#include "formats/temporary_folder.h"
#include "models/family.h"
#include "models/gguf.h"
#include "weights/companions.h"
#include "weights/model_source.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 1 << 20;  // of a tensor in memory at a time, or one row

// Elements [first, first + out.size()) in the order of the folder.
using ReadNumbers = std::function<void(std::int64_t first, std::span<float> out)>;

// A tensor of the file and the source of its numbers.
struct Exported {
  GgufTensorSpec spec;
  GgufOrder order;
  std::function<ReadNumbers()> open;  // may load scales of blocks
  std::function<void()> close;
};

GgufModel describe(const ModelConfig& model, const fs::path& base) {
  if (const GgufForm* form = model.family().gguf) return form->describe(model);
  throw config_error("E-EXPORT-MODEL", base.string(), fmt::format("GGUF files hold no {}", model.family().title),
                     "a model of GPT-2, Llama, Mistral, Qwen2 or Qwen3");
}

// Small or sensitive tensors stay F32, as in llama.cpp.
const GgufStorage& storage_of(const GgufName& name, const Shape& shape, const GgufStorage& type, std::int64_t& in_f16) {
  if (shape.rank() == 1 || name.stem == "position_embd") return *gguf_storage("F32");
  if (!type.blocks || shape.last() % block_elements(*type.blocks) == 0) return type;
  ++in_f16;
  return *gguf_storage("F16");
}

// Reads rows of the file: rows of the folder's tensor, perhaps in another order, or its columns.
void read_rows(const ReadNumbers& read, const Exported& tensor, std::int64_t first, std::span<float> out) {
  const Shape& shape = tensor.spec.shape;
  const std::int64_t rows = shape[0], columns = shape.elements() / rows, count = std::ssize(out) / columns;
  if (tensor.order.turned) {
    std::vector<float> line(static_cast<std::size_t>(count));
    for (std::int64_t column = 0; column < columns; ++column) {
      read(column * rows + first, line);
      for (std::int64_t i = 0; i < count; ++i)
        out[static_cast<std::size_t>(i * columns + column)] = line[static_cast<std::size_t>(i)];
    }
    return;
  }
  if (tensor.order.heads == 0) return read(first * columns, out);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = row_in_folder(first + i, rows / tensor.order.heads);
    read(row * columns, out.subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns)));
  }
}

GgufExported write(const GgufExport& request, const GgufKeys& keys, const std::vector<Exported>& tensors, GgufExported result) {
  std::vector<GgufTensorSpec> specs;
  for (const Exported& tensor : tensors) specs.push_back(tensor.spec);
  GgufWriter writer(request.out, keys, specs);
  std::vector<float> numbers;
  for (const Exported& tensor : tensors) {
    const Shape& shape = tensor.spec.shape;
    const std::int64_t columns = shape.elements() / shape[0], most = std::max<std::int64_t>(1, kElements / columns);
    const ReadNumbers read = tensor.open();
    for (std::int64_t row = 0; row < shape[0]; row += most) {
      numbers.resize(static_cast<std::size_t>(std::min(most, shape[0] - row) * columns));
      read_rows(read, tensor, row, numbers);
      writer.append(tensor.spec.name, numbers);
    }
    if (tensor.close) tensor.close();
  }
  writer.commit();
  result.tensors = std::ssize(tensors), result.bytes = writer.written();
  return result;
}

void put_general(GgufKeys& keys, const char* type, const std::string& architecture, const GgufStorage& storage) {
  keys.put("general.architecture", architecture);
  keys.put("general.type", type);
  keys.put_whole("general.file_type", storage.file_type.value());
  keys.put_whole("general.quantization_version", 2);
}

std::int64_t vocabulary_of(const ModelConfig& model) { return facts_of(model).vocab; }

class ModelExport {
 public:
  explicit ModelExport(const GgufExport& request)
      : request_(request),
        model_(find_model(request.base.string(), {}).model),
        described_(describe(model_, request.base)),
        graph_(model_.family().build(model_, smallest_shape(), {}).graph),
        files_(weights_of_model(request.base)) {
    result_.architecture = described_.architecture;
  }

  GgufExported run() {
    GgufKeys keys;
    put_general(keys, "model", described_.architecture, *request_.type);
    keys.append(described_.keys);
    keys.append(tokenizer());
    std::vector<Exported> tensors = find_tensors();
    return write(request_, keys, tensors, result_);
  }

 private:
  GgufKeys tokenizer() {
    std::optional<TemporaryFolder> unpacked;
    fs::path folder = request_.base;
    if (const GgufWeights* gguf = files_.gguf()) {
      folder = unpacked.emplace().path();
      write_gguf_config(gguf->file(), folder, /*replace=*/true);
      if (has_tokenizer(gguf->file())) write_gguf_tokenizer(gguf->file(), folder, /*replace=*/true);
    }
    GgufTokenizerKeys found = gguf_tokenizer_keys(folder, vocabulary_of(model_), described_.architecture);
    result_.tokenizer = found.tokenizer, result_.chat_template = found.chat_template;
    result_.spaces = found.spaces;
    return std::move(found.keys);
  }

  std::vector<Exported> find_tensors() {
    std::vector<Exported> tensors;
    if (!described_.rope_divisors.empty()) tensors.push_back(rope_divisors());
    const std::vector<StoredNames> stored = stored_parameters(graph_, model_, files_);
    std::size_t next = 0;
    for (const ValueId id : graph_.parameters()) {
      const std::string name(graph_.values[id].name.text());
      const GgufName named = name_in_gguf(name, described_.layout);
      if (named.name.empty()) {
        throw config_error("E-EXPORT-MODEL", request_.base.string(),
                           fmt::format("{} has no name in a GGUF file of {}", name, described_.architecture),
                           "tensors that have one");
      }
      Shape shape = graph_.values[id].type.shape;
      const GgufOrder order = gguf_order(named, described_.layout, static_cast<std::size_t>(shape.rank()));
      if (order.turned) shape = {shape[1], shape[0]};
      const GgufStorage& storage = storage_of(named, shape, *request_.type, result_.in_f16);
      tensors.push_back({{named.name, &storage, shape}, order, open(stored[next]), close(stored[next])});
      ++next;
    }
    return tensors;
  }

  Exported rope_divisors() const {
    const std::vector<float>& all = described_.rope_divisors;
    const auto read = [&all](std::int64_t first, std::span<float> out) {
      std::copy_n(all.begin() + first, out.size(), out.begin());
    };
    return {{"rope_freqs.weight", gguf_storage("F32"), Shape{std::ssize(all)}}, {}, [read] { return ReadNumbers(read); }, {}};
  }

  std::function<ReadNumbers()> open(const StoredNames& names) const {
    if (names.blocks) {
      return [stored = *names.blocks]() -> ReadNumbers {
        const auto blocks = std::make_shared<StoredBlocks>(stored);
        blocks->load_scales();
        return [blocks](std::int64_t first, std::span<float> out) { blocks->read(first, out); };
      };
    }
    return [this, found = names.front()]() -> ReadNumbers {
      files_.require_readable(found);
      return [this, found](std::int64_t first, std::span<float> out) {
        std::array<std::byte, 1 << 14> staging;
        files_.read_f32(found, first, out, staging);
      };
    };
  }

  std::function<void()> close(const StoredNames& names) const {
    return [this, found = names.front()] { files_.forget(found); };
  }

  const GgufExport& request_;
  ModelConfig model_;
  GgufModel described_;
  Graph graph_;
  WeightFiles files_;
  GgufExported result_;
};

// alpha is the rank, so that llama.cpp scales by 1; B contains PEFT's scale.
class AdapterExport {
 public:
  explicit AdapterExport(const GgufExport& request)
      : request_(request),
        source_(find_model(request.base.string(), request.adapter.string(), TiedTables::apart)),
        adapter_(open_adapter(request.adapter)),
        model_(source_.model),
        described_(describe(model_, request.base)),
        graph_(model_.family().build(model_, smallest_shape(), {}).graph) {
    if (settings().kind == AdapterKind::dora) throw refuse("it is DoRA, and GGUF has no place for its magnitudes");
    if (!settings().modules_to_save.empty()) {
      throw refuse(fmt::format("modules_to_save has {}: GGUF holds no wholly trained tensors in addition to LoRA",
                               settings().modules_to_save.front()));
    }
    result_.architecture = described_.architecture;
    result_.other_template = has_other_template(source_);
  }

  GgufExported run() {
    GgufKeys keys;
    put_general(keys, "adapter", described_.architecture, *request_.type);
    keys.put("adapter.type", "lora");
    keys.put_number("adapter.lora.alpha", static_cast<double>(settings().rank));
    const std::vector<Exported> tensors = find_tensors();
    return write(request_, keys, tensors, result_);
  }

 private:
  const AdapterSettings& settings() const { return source_.adapter; }

  Error refuse(const std::string& what) const {
    const MergeCommand merge = merge_command(request_.adapter);
    return data_error("E-EXPORT-ADAPTER", request_.adapter.string(), what, "LoRA on linear layers alone",
                      {merge.remedy, Remedy::of_command("export",
                                                        {{"command.weights", merge.out.string()},
                                                         {"command.gguf", request_.out.string()},
                                                         {"command.type", "BF16"}},
                                                        "after it")});
  }

  std::vector<Exported> find_tensors() {
    std::vector<Exported> tensors;
    for (const auto& [id, linear] : linear_layers(graph_)) {
      const std::string parameter(graph_.values[id].name.text());
      for (const std::string& in_modules : names_in_adapter(model_, parameter)) {
        if (!in_modules.ends_with(".weight")) continue;
        const std::string module = in_modules.substr(0, in_modules.rfind('.')), prefix = std::string(kAdapterPrefix) + module;
        const std::string a = prefix + ".lora_A.weight", b = prefix + ".lora_B.weight";
        if (adapter_.find(a) == nullptr) continue;
        const GgufName named = name_in_gguf(parameter, described_.layout);
        if (named.name.empty() || named.stem == "token_embd") {
          throw refuse(fmt::format("{} is adapted, and a tied table has no such place in a GGUF file", module));
        }
        const Shape& weight = graph_.values[id].type.shape;
        const std::int64_t rank = settings().rank_of(module);
        const std::int64_t inputs = weight[linear.inputs_first ? 0 : 1], outputs = weight[linear.inputs_first ? 1 : 0];
        // llama.cpp multiplies by alpha / (rows of A).
        const double factor = settings().scale_of(module) * static_cast<double>(rank) / static_cast<double>(settings().rank);
        add(tensors, named, ".lora_a", a, {rank, inputs}, {}, 1);
        add(tensors, named, ".lora_b", b, {outputs, rank}, order_of(named), factor);
      }
    }
    return tensors;
  }

  // Rows of B are rows of the matrix, so they follow its heads. A turned matrix has its outputs in rows of B already.
  GgufOrder order_of(const GgufName& name) const {
    return {.heads = gguf_order(name, described_.layout, 2).heads, .turned = false};
  }

  void add(std::vector<Exported>& tensors, const GgufName& named, const char* part, const std::string& name, const Shape& shape,
           const GgufOrder& order, double factor) {
    const StoredTensor* tensor = adapter_.find(name);
    const auto read = [this, tensor, factor](std::int64_t first, std::span<float> out) {
      std::array<std::byte, 1 << 14> staging;
      adapter_.read_f32(*tensor, first, out, staging);
      if (factor == 1) return;
      for (float& x : out) x = static_cast<float>(static_cast<double>(x) * factor);
    };
    const GgufStorage& storage = storage_of(named, shape, *request_.type, result_.in_f16);
    tensors.push_back({{named.name + part, &storage, shape}, order, [read] { return ReadNumbers(read); }, {}});
  }

  const GgufExport& request_;
  ModelSource source_;
  SafetensorsFile adapter_;
  ModelConfig model_;
  GgufModel described_;
  Graph graph_;
  GgufExported result_;
};

}  // namespace

GgufExported export_gguf(const GgufExport& request) {
  return request.adapter.empty() ? ModelExport(request).run() : AdapterExport(request).run();
}

}  // namespace plimsoll
